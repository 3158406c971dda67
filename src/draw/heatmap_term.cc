#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "draw/heatmap.h"
#include "draw/text_width.h"

namespace heed {
namespace {

constexpr int kValueCell = 6;    // " 0.42 "
constexpr int kMostLabel = 14;   // columns of a row's label
constexpr int kMostHeader = 10;  // lines of a column's label written downwards
constexpr std::array<const char*, 5> kShades{" ", "░", "▒", "▓", "█"};
constexpr std::string_view kAsciiShades = " .:-=+*#%@";

/// The nearest of the 256 colours: the 6×6×6 cube or the grey ramp.
int palette_index(const Color& color) {
  static constexpr int kLevels[6] = {0, 95, 135, 175, 215, 255};
  const auto nearest = [](int value) {
    int best = 0;
    for (int i = 1; i < 6; ++i) {
      best = std::abs(kLevels[i] - value) < std::abs(kLevels[best] - value) ? i : best;
    }
    return best;
  };
  const auto distance = [&](int r, int g, int b) {
    return (r - color.red) * (r - color.red) + (g - color.green) * (g - color.green) +
           (b - color.blue) * (b - color.blue);
  };
  const int r = nearest(color.red), g = nearest(color.green), b = nearest(color.blue);
  const int grey = std::clamp(((color.red + color.green + color.blue) / 3 - 8 + 5) / 10, 0, 23);
  const int level = 8 + 10 * grey;
  return distance(level, level, level) < distance(kLevels[r], kLevels[g], kLevels[b])
             ? 232 + grey
             : 16 + 36 * r + 6 * g + b;
}

class TerminalMap {
 public:
  TerminalMap(const PreparedMap& map, const TerminalOptions& options)
      : map_(map), options_(options) {
    label_width_ = 0;
    for (int64_t r = 0; r < map_.rows; ++r) {
      label_width_ = std::max(label_width_, display_width(map_.row_label(r)));
    }
    label_width_ = std::min({label_width_, kMostLabel, std::max(options_.width / 4, 1)});
    const auto room = static_cast<int64_t>(options_.width - label_width_ - 1);
    const int wanted = std::max(kValueCell, widest_column_label() + 1);
    const int64_t most = map_.values.size() == 1 ? 16 : 6;  // a grid of heads is for comparing
    values_ = options_.values && map_.columns <= most && map_.columns * kValueCell <= room;
    if (values_) {
      cell_ = static_cast<int>(std::clamp<int64_t>(room / map_.columns, kValueCell, wanted));
    } else {
      // Korean letters fill two columns: a third keeps neighbours apart.
      const int64_t wanted_cell = has_wide_column_label() ? 3 : 2;
      cell_ = map_.columns * wanted_cell <= room ? static_cast<int>(wanted_cell)
              : map_.columns * 2 <= room         ? 2
                                                 : 1;
    }
  }

  int width() const { return label_width_ + 1 + cell_ * static_cast<int>(map_.columns); }

  /// The lines of one panel, each width() columns wide.
  std::vector<std::string> lines(size_t panel) const {
    std::vector<std::string> out;
    const std::string& title = map_.source->panels[panel].title;
    if (!title.empty()) {
      out.push_back(fit(title, width(), Align::center));
    }
    add_header(out);
    for (int64_t r = 0; r < map_.rows; ++r) {
      std::string line = fit(map_.row_label(r), label_width_, Align::right) + " ";
      for (int64_t c = 0; c < map_.columns; ++c) {
        line += paint(panel, r, c);
      }
      out.push_back(std::move(line));
    }
    return out;
  }

  /// "0.00 ▒▓█ 0.93  Weight"
  std::string legend() const {
    std::string bar;
    constexpr int kSteps = 24;
    for (int i = 0; i < kSteps; ++i) {
      const double share = (i + 0.5) / kSteps;
      bar += block(color_at(map_.colors, share), share, 1, "");
    }
    // Panels with ranges of their own share the ends of the widest.
    const auto widest =
        std::max_element(map_.ranges.begin(), map_.ranges.end(),
                         [](const ColorRange& a, const ColorRange& b) { return a.high < b.high; });
    return fmt::format("{} {} {}  {}", short_number(static_cast<float>(widest->low)), bar,
                       short_number(static_cast<float>(widest->high)),
                       visible_text(map_.source->value_title));
  }

 private:
  int widest_column_label() const {
    int widest = 0;
    for (int64_t c = 0; c < map_.columns; ++c) {
      widest = std::max(widest, display_width(map_.column_label(c)));
    }
    return std::min(widest, kMostLabel);
  }

  bool has_wide_column_label() const {
    for (int64_t c = 0; c < map_.columns; ++c) {
      for (const Cluster& cluster : clusters_of(map_.column_label(c))) {
        if (cluster.width > 1) {
          return true;
        }
      }
    }
    return false;
  }

  /// `text` centred in a cell of the colour, or shades where there is no colour and no text.
  std::string block(const Color& color, double share, int width, const std::string& text) const {
    if (options_.color == TerminalColor::none) {
      if (!text.empty()) {
        return fit(text, width, Align::center);
      }
      std::string shades;
      const double place = std::clamp(share, 0.0, 1.0);
      for (int i = 0; i < width; ++i) {
        if (options_.ascii) {
          shades += kAsciiShades[static_cast<size_t>(std::lround(place * 9))];
        } else {
          shades += kShades[static_cast<size_t>(std::lround(place * 4))];
        }
      }
      return shades;
    }
    const Color front = readable_on(color);
    const std::string inside = fit(text, width, Align::center);
    if (options_.color == TerminalColor::palette) {
      return fmt::format("\x1b[38;5;{};48;5;{}m{}\x1b[0m", front.red == 0 ? 16 : 231,
                         palette_index(color), inside);
    }
    return fmt::format("\x1b[38;2;{};{};{};48;2;{};{};{}m{}\x1b[0m", front.red, front.green,
                       front.blue, color.red, color.green, color.blue, inside);
  }

  std::string paint(size_t panel, int64_t row, int64_t column) const {
    const float value = map_.at(panel, row, column);
    const std::vector<std::string>& texts = map_.source->panels[panel].texts;
    const std::string text = texts.empty() || map_.rows * map_.columns != std::ssize(texts)
                                 ? short_number(value)
                                 : texts[static_cast<size_t>(row * map_.columns + column)];
    return block(map_.color(panel, row, value), map_.share(panel, row, value), cell_,
                 values_ ? text : std::string());
  }

  void add_header(std::vector<std::string>& out) const {
    const std::string indent(static_cast<size_t>(label_width_ + 1), ' ');
    if (values_) {
      std::string line = indent;
      for (int64_t c = 0; c < map_.columns; ++c) {
        line += fit(map_.column_label(c), cell_ - 1, Align::center) + " ";
      }
      out.push_back(std::move(line));
    } else if (cell_ >= 2 && map_.columns == map_.column_extent &&
               !map_.source->column_labels.empty()) {
      add_downward_header(out, indent);
    } else {
      add_positions(out, indent);
    }
  }

  /// One character a line, as every character fits two columns.
  void add_downward_header(std::vector<std::string>& out, const std::string& indent) const {
    std::vector<std::string> labels;
    size_t tallest = 0;
    for (int64_t c = 0; c < map_.columns; ++c) {
      labels.push_back(visible_text(map_.column_label(c)));
      tallest = std::max(tallest, clusters_of(labels.back()).size());
    }
    tallest = std::min<size_t>(tallest, kMostHeader);
    for (size_t line = 0; line < tallest; ++line) {
      std::string text = indent;
      for (const std::string& label : labels) {
        const std::vector<Cluster> clusters = clusters_of(label);
        const size_t gap = tallest - std::min(clusters.size(), tallest);  // labels stand on the map
        const bool cut = clusters.size() > tallest && line + 1 == tallest;
        text += line < gap ? fit("", cell_, Align::left)
                           : fit(cut ? "⋮" : clusters[line - gap].text, cell_, Align::left);
      }
      out.push_back(std::move(text));
    }
  }

  void add_positions(std::vector<std::string>& out, const std::string& indent) const {
    std::string line = indent;
    int used = 0;
    const int total = cell_ * static_cast<int>(map_.columns);
    for (int64_t c = 0; c < map_.columns; ++c) {
      const int at = cell_ * static_cast<int>(c);
      const std::string text = std::to_string(c * map_.column_extent / map_.columns);
      if (at % 10 == 0 && at >= used && at + static_cast<int>(text.size()) <= total) {
        line += std::string(static_cast<size_t>(at - used), ' ') + text;
        used = at + static_cast<int>(text.size());
      }
    }
    out.push_back(line + std::string(static_cast<size_t>(total - used), ' '));
  }

  const PreparedMap& map_;
  const TerminalOptions& options_;
  int label_width_ = 0;
  int cell_ = 1;
  bool values_ = false;
};

/// Pooled so that one panel fits `width` columns and the height.
PreparedMap fitted(const PreparedMap& map, const TerminalOptions& options) {
  int label = 0;
  for (int64_t r = 0; r < map.rows; ++r) {
    label = std::max(label, display_width(map.row_label(r)));
  }
  // Pooled rows are labelled with ranges ("8128–8191"), which may be wider than the tokens.
  const int ranges = 2 * static_cast<int>(std::to_string(map.row_extent).size()) + 1;
  label = std::min({std::max(label, map.rows > options.height ? ranges : 0), kMostLabel,
                    std::max(options.width / 4, 1)});
  return pooled(map, std::max(options.height, 1), std::max(options.width - label - 1, 1));
}

}  // namespace

std::string to_terminal(const Heatmap& map, const TerminalOptions& options) {
  check(options.width >= 8 && options.height >= 1, "to_terminal",
        "a terminal of {} columns and {} rows is too small", options.width, options.height);
  const PreparedMap prepared = fitted(prepare(map, "to_terminal"), options);
  const TerminalMap view(prepared, options);
  std::string out;
  if (!map.title.empty()) {
    out += shorten(map.title, options.width) + "\n";
  }
  out += fmt::format("{} ↓  {} →\n", visible_text(map.row_title), visible_text(map.column_title));
  constexpr int kGap = 3;
  const auto fitting = static_cast<size_t>((options.width + kGap) / (view.width() + kGap));
  // Rows of like length: eight heads lie 4 + 4, not 5 + 3.
  const size_t most = std::max<size_t>(fitting, 1);
  const size_t rows = (map.panels.size() + most - 1) / most;
  size_t across = (map.panels.size() + rows - 1) / rows;
  if (map.panels_across > 0) {
    across = std::min(across, static_cast<size_t>(map.panels_across));
  }
  for (size_t first = 0; first < map.panels.size(); first += across) {
    const size_t last = std::min(first + across, map.panels.size());
    std::vector<std::vector<std::string>> beside;
    size_t tallest = 0;
    for (size_t p = first; p < last; ++p) {
      beside.push_back(view.lines(p));
      tallest = std::max(tallest, beside.back().size());
    }
    for (size_t line = 0; line < tallest; ++line) {
      for (size_t p = 0; p < beside.size(); ++p) {
        const bool there = tallest - line <= beside[p].size();  // untitled panels stand lower
        out += there ? beside[p][line - (tallest - beside[p].size())]
                     : std::string(static_cast<size_t>(view.width()), ' ');
        out += p + 1 < beside.size() ? std::string(kGap, ' ') : "\n";
      }
    }
    out += "\n";
  }
  return out + view.legend() + "\n";
}

}  // namespace heed
