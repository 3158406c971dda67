#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/file.h"
#include "base/utf8.h"
#include "io/json.h"
#include "io/json_document.h"
#include "io/json_limits.h"
#include "io/json_problem.h"
#include "io/json_split.h"

namespace heed {
namespace {

/// Builds the document and refuses duplicate keys; the library's own builder lets the last one win.
class Builder {
 public:
  Builder(nlohmann::json& root, const std::string& file) : root_(root), file_(file) {}

  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  bool null() { return add(nullptr); }
  bool boolean(bool value) { return add(value); }
  bool number_integer(number_integer_t value) { return add(value); }
  bool number_unsigned(number_unsigned_t value) { return add(value); }
  bool number_float(number_float_t value, const string_t&) { return add(value); }
  bool string(string_t& value) { return add(std::move(value)); }
  bool binary(binary_t&) { return false; }
  bool start_object(size_t) { return open(nlohmann::json::object()); }
  bool start_array(size_t) { return open(nlohmann::json::array()); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool key(string_t& name) {
    const auto [member, inserted] = open_.back()->emplace(std::move(name), nullptr);
    check_data(inserted, file_, "duplicate key {}", quote(member.key()));
    member_ = &*member;
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) {
    // The library's text may quote the whole of a bad token.
    fail(ErrorKind::data, file_, "is not valid JSON at byte {}: {}", position,
         json_problem(error.what()));
  }

 private:
  template <class T>
  nlohmann::json* insert(T&& value) {
    if (open_.empty()) {
      root_ = std::forward<T>(value);
      return &root_;
    }
    if (open_.back()->is_array()) {
      return &open_.back()->emplace_back(std::forward<T>(value));
    }
    *member_ = std::forward<T>(value);
    return member_;
  }
  template <class T>
  bool add(T&& value) {
    insert(std::forward<T>(value));
    return true;
  }
  bool open(nlohmann::json&& container) {
    open_.push_back(insert(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  nlohmann::json& root_;
  const std::string& file_;
  std::vector<nlohmann::json*> open_;  // an array does not grow while a value inside it is open
  nlohmann::json* member_ = nullptr;
};

/// Forwards everything except model.vocab and model.merges to a Builder. Returns false, which stops
/// the parser, if these two have an unusual form.
class Splitter {
 public:
  using string_t = Builder::string_t;

  Splitter(Builder& tree, SplitJson& lists) : tree_(tree), lists_(lists) {}

  bool found_both() const { return objects_ == 1 && arrays_ == 1; }

  bool null() { return section_ == Section::tree ? tree_.null() : false; }
  bool boolean(bool value) { return section_ == Section::tree ? tree_.boolean(value) : false; }
  bool number_integer(Builder::number_integer_t value) {
    return section_ == Section::tree ? tree_.number_integer(value) : false;
  }
  bool number_float(Builder::number_float_t value, const string_t& text) {
    return section_ == Section::tree ? tree_.number_float(value, text) : false;
  }
  bool binary(Builder::binary_t&) { return false; }
  bool number_unsigned(Builder::number_unsigned_t value) {
    if (section_ == Section::tree) {
      return tree_.number_unsigned(value);
    }
    if (section_ != Section::vocabulary || value > std::numeric_limits<int32_t>::max()) {
      return false;
    }
    lists_.vocabulary.emplace_back(std::move(token_), static_cast<int32_t>(value));
    return true;
  }
  bool string(string_t& value) {
    switch (section_) {
      case Section::tree:
        return tree_.string(value);
      case Section::merges: {
        const size_t space = value.find(' ');
        if (space == string_t::npos || value.find(' ', space + 1) != string_t::npos) {
          return false;
        }
        lists_.merges.emplace_back(value.substr(0, space), value.substr(space + 1));
        return true;
      }
      case Section::pair:
        if (halves_ > 1) {
          return false;
        }
        (halves_++ == 0 ? lists_.merges.back().first : lists_.merges.back().second) =
            std::move(value);
        return true;
      default:
        return false;
    }
  }
  bool key(string_t& name) {
    if (section_ == Section::vocabulary) {
      token_ = std::move(name);
      return true;
    }
    if (depth_ <= 2) {
      keys_[depth_ - 1] = name;
    }
    return tree_.key(name);
  }
  bool start_object(size_t size) {
    if (section_ != Section::tree) {
      return false;
    }
    if (in_model("vocab")) {
      section_ = Section::vocabulary;
      ++objects_;
    } else {
      ++depth_;
    }
    return tree_.start_object(size);
  }
  bool end_object() {
    if (section_ == Section::vocabulary) {
      section_ = Section::tree;
    } else {
      --depth_;
    }
    return tree_.end_object();
  }
  bool start_array(size_t size) {
    if (section_ == Section::merges) {
      section_ = Section::pair;
      halves_ = 0;
      lists_.merges.emplace_back();
      return true;
    }
    if (section_ != Section::tree) {
      return false;
    }
    if (in_model("merges")) {
      section_ = Section::merges;
      ++arrays_;
    } else {
      ++depth_;
    }
    return tree_.start_array(size);
  }
  bool end_array() {
    if (section_ == Section::pair) {
      section_ = Section::merges;
      return halves_ == 2;
    }
    if (section_ == Section::merges) {
      section_ = Section::tree;
    } else {
      --depth_;
    }
    return tree_.end_array();
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) { return false; }

 private:
  enum class Section { tree, vocabulary, merges, pair };

  bool in_model(std::string_view key) const {
    return depth_ == 2 && keys_[0] == "model" && keys_[1] == key;
  }

  Builder& tree_;
  SplitJson& lists_;
  Section section_ = Section::tree;
  int depth_ = 0;        // of what is open in the tree
  std::string keys_[2];  // of the root and of the object in it
  std::string token_;
  int halves_ = 0;  // of a pair
  int objects_ = 0;
  int arrays_ = 0;
};

}  // namespace

std::optional<SplitJson> split_tokenizer_json(std::string_view text, const std::string& file) {
  if (text.find("\"merges\"") == std::string_view::npos) {
    return std::nullopt;
  }
  check_json_limits(text, file, {});
  nlohmann::json root;
  SplitJson lists{adopt_json(nlohmann::json(), file), {}, {}};
  Builder tree(root, file);
  Splitter splitter(tree, lists);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &splitter) || !splitter.found_both()) {
    return std::nullopt;
  }
  lists.rest = adopt_json(std::move(root), file);
  return lists;
}

Json Json::parse(std::string_view text, const std::string& file, const JsonLimits& limits) {
  check_json_limits(text, file, limits);
  auto document = std::make_shared<Document>();
  document->file = file;
  Builder builder(document->root, file);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return JsonAccess::document(std::move(document));
}

Json Json::read(const std::filesystem::path& path, const JsonLimits& limits, uint64_t max_bytes) {
  return parse(read_file(path, max_bytes), path.native(), limits);
}

Json adopt_json(nlohmann::json&& value, const std::string& file) {
  return JsonAccess::adopt(std::move(value), file);
}

}  // namespace heed
