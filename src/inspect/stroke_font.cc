#include "inspect/stroke_font.h"

#include <utf8proc.h>

#include <array>
#include <memory>
#include <string>

#include "base/text.h"

namespace heed {
namespace {

// The grid of Latin letters: capitals from 0 to the baseline at 6, small letters from 2, tails
// to 8.
constexpr double kUnitX = 0.1;
constexpr double kUnitY = 0.7 / 6;
constexpr double kBaseline = 6;

struct Letter {
  int width;  ///< in grid units, without the space after it
  const char* shape;
};

// ASCII from '!' to '~'.
constexpr std::array<Letter, 94> kLetters{{
    {1, "10 14,16 16"},
    {2, "00 02,20 22"},
    {4, "10 16,30 36,02 42,04 44"},
    {4, "~41 40 00 03 43 46 06 05,20 26"},
    {4, "40 06,~00 20 22 02 00,~24 44 46 26 24"},
    {4, "46 11 20 31 04 16 26 44"},
    {1, "10 12"},
    {2, "~20 03 26"},
    {2, "~00 23 06"},
    {4, "21 25,11 35,31 15"},
    {4, "21 25,03 43"},
    {1, "16 07"},
    {3, "03 33"},
    {0, "06 06"},
    {4, "40 06"},
    {4, "~00 40 46 06 00"},
    {3, "11 20 26"},
    {4, "~02 00 40 43 06,06 46"},
    {4, "~01 00 40 43 13,~13 43 46 06 05"},
    {4, "36 30 04 44"},
    {4, "40 00 03,~03 22 42 46 06 05"},
    {4, "~40 00 04,~02 42 46 06 02"},
    {4, "00 40 16"},
    {4, "~00 40 43 03 00,~03 43 46 06 03"},
    {4, "~00 40 44 04 00,~42 46 06"},
    {0, "03 03,06 06"},
    {1, "13 13,16 07"},
    {3, "31 03 35"},
    {4, "02 42,04 44"},
    {3, "01 33 05"},
    {4, "~01 00 40 43 24,26 26"},
    {4, "~44 40 00 06 36,~12 32 34 14 12,32 34 44"},
    {4, "06 20 46,14 34"},
    {4, "06 00,~00 40 43 03,~03 43 46 06"},
    {4, "~41 40 00 06 46 45"},
    {4, "00 06,~00 40 46 06"},
    {4, "40 00 06 46,03 33"},
    {4, "40 00 06,03 33"},
    {4, "~41 40 00 06 46 43,43 23"},
    {4, "00 06,40 46,03 43"},
    {0, "00 06"},
    {3, "30 34,~34 36 06 05"},
    {4, "00 06,40 04,22 46"},
    {3, "00 06 36"},
    {5, "06 00 24 50 56"},
    {4, "06 00 46 40"},
    {4, "~00 40 46 06 00"},
    {4, "06 00,~00 40 43 03"},
    {4, "~00 40 46 06 00,24 46"},
    {4, "06 00,~00 40 43 03,23 46"},
    {4, "~41 40 00 03 43 46 06 05"},
    {4, "00 40,20 26"},
    {4, "00 03,~03 06 46 43,43 40"},
    {4, "00 26 40"},
    {6, "00 16 31 56 60"},
    {4, "00 46,40 06"},
    {4, "00 23 40,23 26"},
    {4, "00 40 06 46"},
    {2, "20 00 06 26"},
    {4, "00 46"},
    {2, "00 20 26 06"},
    {4, "02 20 42"},
    {4, "07 47"},
    {1, "00 11"},
    {3, "~02 32 36 06 02,32 36"},
    {3, "00 06,~02 32 36 06 02"},
    {3, "~33 32 02 06 36 35"},
    {3, "30 36,~02 32 36 06 02"},
    {3, "04 34,~34 32 02 06 36 35"},
    {2, "~20 10 13,13 16,02 22"},
    {3, "~02 32 36 06 02,32 36,~36 38 08 07"},
    {3, "00 06,~04 02 32 34,34 36"},
    {0, "02 06,00 00"},
    {1, "12 16,~16 18 08,10 10"},
    {3, "00 06,32 04,13 36"},
    {0, "00 06"},
    {4, "02 06,~03 02 22 23,23 26,~23 22 42 43,43 46"},
    {3, "02 06,~04 02 32 34,34 36"},
    {3, "~02 32 36 06 02"},
    {3, "02 08,~02 32 36 06 02"},
    {3, "32 38,~02 32 36 06 02"},
    {2, "02 06,~05 02 22"},
    {3, "~33 32 02 04 34 36 06 05"},
    {2, "10 15,~15 16 26,02 22"},
    {3, "02 04,~04 06 36 34,32 36"},
    {4, "02 26 42"},
    {4, "02 16 23 36 42"},
    {3, "02 36,32 06"},
    {4, "02 26,42 18"},
    {3, "02 32 06 36"},
    {2, "20 11 12 03 14 15 26"},
    {0, "00 07"},
    {2, "00 11 12 23 14 15 06"},
    {4, "~04 12 34 42"},
}};

struct Extra {
  int32_t code;
  Letter letter;
};

constexpr Extra kExtras[] = {
    {0x00A0, {1, ""}},
    {0x00AB, {4, "22 04 26,42 24 46"}},
    {0x00B7, {0, "03 03"}},
    {0x00BB, {4, "02 24 06,22 44 26"}},
    {0x00D7, {4, "11 35,31 15"}},
    {0x00DF, {3, "06 01,~01 00 30 33 13,~13 33 36 16"}},
    {0x2013, {4, "03 43"}},
    {0x2014, {6, "03 63"}},
    {0x2018, {1, "10 02"}},
    {0x2019, {1, "10 02"}},
    {0x201C, {3, "10 02,30 22"}},
    {0x201D, {3, "10 02,30 22"}},
    {0x201E, {3, "15 07,35 27"}},
    {0x2026, {4, "06 06,26 26,46 46"}},
    {0x2190, {5, "53 03,21 03 25"}},
    {0x2192, {5, "03 53,31 53 35"}},
    {0x21B5, {4, "41 43 03,21 03 25"}},
    {0x2212, {4, "03 43"}},
    {0x221E, {6, "~32 02 05 35 32 62 65 35 32"}},
    {0x2423, {3, "05 06 36 35"}},
    {0x2581, {4, "07 47"}},
};

// Accents over a small letter, on the same grid; capitals have them two units higher.
constexpr Extra kAccents[] = {
    {0x0300, {3, "10 21"}},       {0x0301, {3, "20 11"}},       {0x0302, {3, "01 10 21"}},
    {0x0303, {3, "01 10 21 30"}}, {0x0308, {3, "01 01,21 21"}}, {0x030A, {3, "~00 20 21 01 00"}},
    {0x030C, {3, "00 11 20"}},    {0x0327, {3, "27 18"}},
};

void add_curve(Stroke& out, const std::vector<StrokePoint>& control) {
  constexpr int kParts = 6;
  const auto middle = [](const StrokePoint& a, const StrokePoint& b) {
    return StrokePoint{(a.x + b.x) / 2, (a.y + b.y) / 2};
  };
  const size_t count = control.size();
  const bool closed =
      control.front().x == control.back().x && control.front().y == control.back().y;
  const auto quadratic = [&](const StrokePoint& a, const StrokePoint& b, const StrokePoint& c) {
    for (int i = 1; i <= kParts; ++i) {
      const double t = static_cast<double>(i) / kParts, s = 1 - t;
      out.push_back({s * s * a.x + 2 * s * t * b.x + t * t * c.x,
                     s * s * a.y + 2 * s * t * b.y + t * t * c.y});
    }
  };
  StrokePoint from = closed ? middle(control[0], control[1]) : control[0];
  out.push_back(from);
  for (size_t i = 1; i + 1 < count; ++i) {
    const StrokePoint to =
        i + 2 < count || closed ? middle(control[i], control[i + 1]) : control[i + 1];
    quadratic(from, control[i], to);
    from = to;
  }
  if (closed) {
    quadratic(from, control[0], middle(control[0], control[1]));
  }
}

const Letter* find(const Extra* first, const Extra* last, int32_t code) {
  for (; first != last; ++first) {
    if (first->code == code) {
      return &first->letter;
    }
  }
  return nullptr;
}

const Letter* letter_of(int32_t code) {
  if (code > 0x20 && code < 0x7F) {
    return &kLetters[static_cast<size_t>(code - 0x21)];
  }
  return find(std::begin(kExtras), std::end(kExtras), code);
}

/// Code points after canonical decomposition, except that Korean syllables stay whole.
std::vector<int32_t> decomposed(std::string_view text) {
  std::vector<int32_t> codes;
  while (!text.empty()) {
    const size_t length = utf8_sequence(text);
    utf8proc_int32_t code = 0xFFFD;
    if (length > 0) {
      utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                       static_cast<utf8proc_ssize_t>(length), &code);
    }
    text.remove_prefix(length == 0 ? 1 : length);
    utf8proc_int32_t parts[8];
    int boundary = 0;
    const bool hangul = code >= 0xAC00 && code <= 0xD7A3;
    const utf8proc_ssize_t count =
        hangul ? 0 : utf8proc_decompose_char(code, parts, 8, UTF8PROC_DECOMPOSE, &boundary);
    if (count <= 0 || count > 8) {
      codes.push_back(code);
    } else {
      codes.insert(codes.end(), parts, parts + count);
    }
  }
  return codes;
}

}  // namespace

void add_shape(std::vector<Stroke>& strokes, std::string_view shape, double x, double y,
               double unit_x, double unit_y) {
  while (!shape.empty()) {
    const size_t comma = shape.find(',');
    std::string_view part = shape.substr(0, comma);
    shape = comma == std::string_view::npos ? std::string_view() : shape.substr(comma + 1);
    const bool smooth = part.front() == '~';
    part.remove_prefix(smooth ? 1 : 0);
    std::vector<StrokePoint> points;
    for (size_t i = 0; i + 1 < part.size(); i += 3) {
      points.push_back({x + unit_x * (part[i] - '0'), y + unit_y * (part[i + 1] - '0')});
    }
    Stroke stroke;
    if (smooth) {
      add_curve(stroke, points);
    } else {
      stroke = std::move(points);
    }
    strokes.push_back(std::move(stroke));
  }
}

StrokeText stroke_text(std::string_view text) {
  StrokeText out;
  bool capital = false;
  double previous = 0;  // where the letter before an accent began
  for (const int32_t code : decomposed(text)) {
    if (const Letter* accent = find(std::begin(kAccents), std::end(kAccents), code)) {
      const double rise = capital && code != 0x0327 ? 2 : 0;
      add_shape(out.strokes, accent->shape, previous + kUnitX * (capital ? 1 : 0.5),
                -(kBaseline + rise) * kUnitY, kUnitX, kUnitY);
      continue;
    }
    if (code == ' ') {
      out.advance += 0.3;
      continue;
    }
    const StrokeGlyph hangul = hangul_glyph(code);
    const Letter* letter = letter_of(code);
    out.complete = out.complete && (letter != nullptr || !hangul.strokes.empty());
    previous = out.advance;
    if (letter != nullptr) {
      add_shape(out.strokes, letter->shape, out.advance + 0.08, -kBaseline * kUnitY, kUnitX,
                kUnitY);
      out.advance += letter->width * kUnitX + 0.17;
      capital = code >= 'A' && code <= 'Z';
    } else {
      for (const Stroke& stroke : hangul.strokes) {
        Stroke moved = stroke;
        for (StrokePoint& point : moved) {
          point.x += out.advance;
        }
        out.strokes.push_back(std::move(moved));
      }
      out.advance += hangul.advance;
    }
  }
  return out;
}

}  // namespace heed
