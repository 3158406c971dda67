#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace heed {

/// What a reader sees as one character, and the terminal columns it takes.
struct Cluster {
  std::string_view text;
  int width;
};

/// Text that is safe to show: broken UTF-8 becomes U+FFFD; control characters become their pictures
/// (␛, ↵); marks that reorder or hide text are dropped.
std::string visible_text(std::string_view text);

/// The clusters of visible text, in order. The views point into `text`.
std::vector<Cluster> clusters_of(std::string_view text);

/// `text` cut to `width` columns, with "…" at its end where something is gone.
std::string shorten(std::string_view text, int width);

enum class Align { left, center, right };
/// shorten()ed and filled with spaces to exactly `width` columns.
std::string fit(std::string_view text, int width, Align align);

/// For use in XML and HTML, in text and in attributes.
std::string escape_markup(std::string_view text);

}  // namespace heed
