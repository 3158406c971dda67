#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <tuple>

#include "base/check.h"
#include "base/file.h"
#include "base/language.h"
#include "base/utf8.h"
#include "draw/text_width.h"
#include "heed/inspect_view.h"
#include "heed/io.h"
#include "heed/open.h"

namespace heed::app {
namespace {

constexpr int64_t kMostNumbers = int64_t{1} << 28;  // floats of a .npy file

struct TableLine {
  HeadSummary head;
  double weight;  ///< on the word asked for
};

class Writer {
 public:
  Writer(const Inspection& inspection, const InspectOptions& options, const Common& common)
      : view_(inspection, options), inspection_(inspection), options_(options), common_(common) {}

  void write() const {
    if (options_.heads_table && options_.format == "term") {
      put(table_text());
    } else if (options_.format == "json") {
      put(inspection_json(view_) + "\n");
    } else if (options_.format == "npy") {
      write_npy();
    } else if (options_.format == "term") {
      put(terminal());
    } else if (options_.patches) {
      const PatchPicture picture = view_.patches();
      put(options_.format == "svg" ? to_svg(picture) : to_png(picture));
    } else {
      const Heatmap map = view_.heatmap(kMostPixels, kMostPixels);
      put(options_.format == "svg" ? to_svg(map) : to_png(map));
    }
  }

 private:
  std::string guesses_line(const std::vector<Guess>& guesses) const {
    std::string line;
    for (const Guess& guess : guesses) {
      line += fmt::format("{}{} {:.3f}", line.empty() ? "" : " · ", visible_text(guess.token),
                          guess.probability);
    }
    return line;
  }

  std::string terminal() const {
    TerminalOptions options;
    const char* colorterm = std::getenv("COLORTERM");
    const std::string depth = colorterm == nullptr ? "" : colorterm;
    if (options_.output.empty() && common_.colors(STDOUT_FILENO)) {
      options.color =
          depth == "truecolor" || depth == "24bit" ? TerminalColor::full : TerminalColor::palette;
    }
    options.width = options_.width;
    std::string out = to_terminal(view_.heatmap(options.height, options.width), options);
    if (options_.top_k > 0 && !options_.rollout) {
      for (const Chosen& each : view_.chosen()) {
        out += "\n" + strongest_text(each);
      }
    }
    if (!inspection_.prediction.empty()) {
      out +=
          "\n" + (inspection_.predicted_position < 0
                      ? tell("Prediction: {}\n", guesses_line(inspection_.prediction))
                      : tell("Prediction for {} at position {}: {}\n",
                             label(inspection_.input.source, inspection_.predicted_position),
                             inspection_.predicted_position, guesses_line(inspection_.prediction)));
    }
    if (!inspection_.undisturbed.empty()) {
      out += tell("Unchanged model: {}\n", guesses_line(inspection_.undisturbed));
    }
    return out;
  }

  std::string label(const std::vector<std::string>& labels, int64_t index) const {
    return labels.empty() ? std::to_string(index) : labels[static_cast<size_t>(index)];
  }

  std::string strongest_text(const Chosen& each) const {
    const auto [index, weight] = each.attention->strongest(0, each.head, options_.top_k);
    const std::vector<std::string> rows = inspection_.row_labels(*each.attention);
    const std::vector<std::string> columns = inspection_.column_labels(*each.attention);
    const int64_t count = index.size(1);
    std::string out = tell("Head {}", each.head) + "\n";
    for (int64_t q = 0; q < index.size(0); ++q) {
      out += fit(label(rows, q), 16, Align::right) + " →";
      for (int64_t k = 0; k < count; ++k) {
        const float value = weight.data<float>()[q * count + k];
        if (value > 0) {
          out +=
              fmt::format("  {} {:.3f}",
                          shorten(label(columns, index.data<int64_t>()[q * count + k]), 16), value);
        }
      }
      out += "\n";
    }
    return out;
  }

  /// The table's lines: by place, or by how much a head looks at the word asked for.
  std::vector<TableLine> table_lines() const {
    std::vector<TableLine> lines;
    for (HeadSummary& head : head_table(*inspection_.recorder)) {
      lines.push_back({std::move(head), -1});
    }
    if (options_.points_at.empty()) {
      return lines;
    }
    const std::vector<std::string>& words = inspection_.input.source;
    const auto word = std::find(words.begin(), words.end(), options_.points_at);
    if (word == words.end()) {
      fail(ErrorKind::usage, "--points-at", "the text has no {}", quote(options_.points_at));
    }
    for (TableLine& line : lines) {
      const RecordedAttention& seen =
          inspection_.recorder->at(line.head.place.kind, line.head.place.layer);
      const int64_t last = seen.queries() - 1;
      const int64_t asked = inspection_.input.asked_place;
      const int64_t row = asked < 0 ? last : std::min(asked, last);
      const Tensor weights =
          seen.record.weights(0, line.head.head, row, row + 1, 0, seen.keys()).to(DType::f32);
      check(word - words.begin() < seen.keys(), "--points-at", "a {} attention does not see words",
            line.head.place.kind);
      line.weight = static_cast<double>(weights.data<float>()[word - words.begin()]);
    }
    std::stable_sort(lines.begin(), lines.end(),
                     [](const TableLine& a, const TableLine& b) { return a.weight > b.weight; });
    return lines;
  }

  std::string table_text() const {
    const bool pointing = !options_.points_at.empty();
    const auto heading = [&](const char* english, int width) {
      return " " + fit(translate(english), width, Align::right);
    };
    std::string out = fit(tell("kind"), 8, Align::left) + heading(say("layer"), 5) +
                      heading(say("head"), 4) + heading(say("entropy"), 8) +
                      heading(say("distance"), 9) + heading(say("share"), 6) +
                      (pointing ? heading(say("points"), 6) : "") + "  " + tell("pattern") + "\n";
    for (const TableLine& line : table_lines()) {
      const HeadSummary& head = line.head;
      out += fit(view_.kind_name(head.place.kind), 8, Align::left);
      out += fmt::format(" {:>5} {:>4} {:>8.3f} {:>9.2f} {:>6.3f}", head.place.layer, head.head,
                         head.patterns.entropy, head.patterns.mean_distance, head.output_share);
      out += (pointing ? fmt::format(" {:>6.3f}", line.weight) : "") + "  " +
             view_.pattern_name(head.pattern) + "\n";
    }
    return out;
  }

  /// [layers, heads, Tq, Tk], without the axes that an option fixed.
  void write_npy() const {
    const RecordedAttention& first = *view_.chosen().front().attention;
    const int64_t cells = first.queries() * first.keys();
    const auto maps = options_.rollout ? 1 : static_cast<int64_t>(view_.chosen().size());
    if (maps * cells > kMostNumbers) {
      fail(ErrorKind::usage, "inspect",
           "{} maps of {} x {} are too large; choose with --layer and --head", maps,
           first.queries(), first.keys());
    }
    Shape shape;
    if (!options_.rollout && options_.layer < 0) {
      shape.push_back(static_cast<int64_t>(view_.layers().size()));
    }
    if (!options_.rollout && options_.head < 0) {
      shape.push_back(first.heads());
    }
    shape.push_back(first.queries());
    shape.push_back(first.keys());
    check(shape.numel() == maps * cells, "inspect",
          "layers of different shapes; choose with --layer");
    const Tensor all = Tensor::empty(shape);
    for (int64_t i = 0; i < maps; ++i) {
      const Tensor one = options_.rollout ? attention_rollout(*inspection_.recorder, view_.kind())
                                          : view_.values_of(view_.chosen()[static_cast<size_t>(i)],
                                                            first.queries(), first.keys());
      all.alias({first.queries(), first.keys()}, {first.keys(), 1}, i * cells).copy_from(one);
    }
    save_npy(options_.output, all);
  }

  void put(const std::string& text) const {
    if (options_.output.empty()) {
      print(text);
    } else {
      write_file_atomically(options_.output, text);
    }
  }

  InspectView view_;
  const Inspection& inspection_;
  const InspectOptions& options_;
  const Common& common_;
};

}  // namespace

void write_inspection(const Inspection& inspection, const InspectOptions& options,
                      const Common& common) {
  Writer(inspection, options, common).write();
}

}  // namespace heed::app
