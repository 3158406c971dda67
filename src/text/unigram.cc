#include <algorithm>

#include "base/check.h"
#include "text/token_model.h"
#include "text/trie.h"
#include "text/unicode.h"

namespace heed::text {
namespace {

constexpr double kUnknownPenalty = 10;

/// The best segmentation up to a position of the piece.
struct LatticeNode {
  double score;
  uint32_t start;
  int32_t id;  ///< -1: no way leads here yet
};

struct UnigramScratch final : ModelScratch {
  std::vector<LatticeNode> nodes;
};

/// The most probable cut of a piece into tokens (Viterbi).
class Unigram final : public Model {
 public:
  explicit Unigram(const Json& config) : file_(config.file()) {
    std::vector<std::string> tokens;
    double lowest = 0;
    for (const Json& entry : config.at("vocab").elements()) {
      if (entry.size() != 2) {
        entry.refuse("is not [token, score]");
      }
      tokens.push_back(entry[0].string());
      scores_.push_back(entry[1].number());
      lowest = std::min(lowest, scores_.back());
    }
    vocabulary_ = Vocabulary::from_list(std::move(tokens));
    for (const auto& [token, id] : vocabulary_.ids()) {
      check_token_length(token, Trie::kLongestKey, file_);
      trie_.insert(token, id);
    }
    if (config.has("unk_id")) {
      unk_ = static_cast<int32_t>(config.integer("unk_id", 0, vocabulary_.size() - 1));
    }
    unknown_score_ = lowest - kUnknownPenalty;
    if (config.boolean_or("byte_fallback", false)) {
      fallback_ = byte_tokens(vocabulary_);
    }
  }

  bool is_unknown(int32_t id) const override { return unk_ == id; }

  std::unique_ptr<ModelScratch> make_scratch() const override {
    return std::make_unique<UnigramScratch>();
  }

  void tokenize(std::string_view piece, ModelScratch* scratch,
                std::vector<ModelToken>& out) const override {
    if (piece.empty()) {
      return;
    }
    auto& nodes = static_cast<UnigramScratch*>(scratch)->nodes;
    forward(piece, nodes);
    const size_t first = out.size();
    size_t end = piece.size();
    while (end > 0) {
      const LatticeNode& node = nodes[end];
      if (node.id == kUnknown) {  // a run of unknown characters is one token
        size_t begin = node.start;
        while (begin > 0 && nodes[begin].id == kUnknown) {
          begin = nodes[begin].start;
        }
        add_unknown(piece, begin, end, out);
        end = begin;
      } else {
        out.push_back({node.id, node.start, static_cast<uint32_t>(end)});
        end = node.start;
      }
    }
    std::reverse(out.begin() + static_cast<ptrdiff_t>(first), out.end());
  }

 private:
  static constexpr int32_t kNoWay = -1;
  static constexpr int32_t kUnknown = -2;

  void forward(std::string_view piece, std::vector<LatticeNode>& nodes) const {
    nodes.assign(piece.size() + 1, {0, 0, kNoWay});
    const auto offer = [&](size_t end, double score, size_t start, int32_t id) {
      LatticeNode& node = nodes[end];
      if (node.id == kNoWay || score > node.score) {
        node = {score, static_cast<uint32_t>(start), id};
      }
    };
    for (size_t at = 0; at < piece.size();) {
      const size_t step = decode_one(piece.data() + at, piece.data() + piece.size()).length;
      const double so_far = nodes[at].score;
      bool single = false;
      trie_.prefixes(piece.substr(at), [&](size_t length, int32_t id) {
        offer(at + length, so_far + scores_[static_cast<size_t>(id)], at, id);
        single = single || length == step;
      });
      if (!single) {
        offer(at + step, so_far + unknown_score_, at, kUnknown);
      }
      at += step;
    }
  }

  /// Tokens are added back to front.
  void add_unknown(std::string_view piece, size_t begin, size_t end,
                   std::vector<ModelToken>& out) const {
    const std::string_view run = piece.substr(begin, end - begin);
    const bool bytes = !fallback_.empty() && std::all_of(run.begin(), run.end(), [&](char c) {
      return fallback_[static_cast<unsigned char>(c)] >= 0;
    });
    if (bytes) {
      for (size_t i = end; i-- > begin;) {
        out.push_back({fallback_[static_cast<unsigned char>(piece[i])], static_cast<uint32_t>(i),
                       static_cast<uint32_t>(i + 1)});
      }
      return;
    }
    check_data(unk_.has_value(), file_,
               "the text has a character outside the vocabulary, and unk_id is not set");
    out.push_back({*unk_, static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
  }

  std::string file_;
  std::vector<double> scores_;
  double unknown_score_ = 0;
  std::optional<int32_t> unk_;
  Trie trie_;
  std::vector<int32_t> fallback_;
};

}  // namespace

std::unique_ptr<Model> make_unigram(const Json& json) { return std::make_unique<Unigram>(json); }

}  // namespace heed::text
