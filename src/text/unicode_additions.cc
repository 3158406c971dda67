#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/unicode_additions.h"

#include <fmt/format.h>
#include <pcre2.h>

#include <cstdlib>

namespace heed::text {
namespace {

struct Added {
  uint32_t first, last;
  char category[2];
};

/// Assigned after Unicode 14, by general category.
constexpr Added kAdded[] = {
    {0x897, 0x897, {'M', 'n'}},     {0xcf3, 0xcf3, {'M', 'c'}},     {0xece, 0xece, {'M', 'n'}},
    {0x1b4e, 0x1b4f, {'P', 'o'}},   {0x1b7f, 0x1b7f, {'P', 'o'}},   {0x1c89, 0x1c89, {'L', 'u'}},
    {0x1c8a, 0x1c8a, {'L', 'l'}},   {0x2427, 0x2429, {'S', 'o'}},   {0x2ffc, 0x2fff, {'S', 'o'}},
    {0x31e4, 0x31e5, {'S', 'o'}},   {0x31ef, 0x31ef, {'S', 'o'}},   {0xa7cb, 0xa7cc, {'L', 'u'}},
    {0xa7cd, 0xa7cd, {'L', 'l'}},   {0xa7da, 0xa7da, {'L', 'u'}},   {0xa7db, 0xa7db, {'L', 'l'}},
    {0xa7dc, 0xa7dc, {'L', 'u'}},   {0x105c0, 0x105f3, {'L', 'o'}}, {0x10d40, 0x10d49, {'N', 'd'}},
    {0x10d4a, 0x10d4d, {'L', 'o'}}, {0x10d4e, 0x10d4e, {'L', 'm'}}, {0x10d4f, 0x10d4f, {'L', 'o'}},
    {0x10d50, 0x10d65, {'L', 'u'}}, {0x10d69, 0x10d6d, {'M', 'n'}}, {0x10d6e, 0x10d6e, {'P', 'd'}},
    {0x10d6f, 0x10d6f, {'L', 'm'}}, {0x10d70, 0x10d85, {'L', 'l'}}, {0x10d8e, 0x10d8f, {'S', 'm'}},
    {0x10ec2, 0x10ec4, {'L', 'o'}}, {0x10efc, 0x10eff, {'M', 'n'}}, {0x1123f, 0x11240, {'L', 'o'}},
    {0x11241, 0x11241, {'M', 'n'}}, {0x11380, 0x11389, {'L', 'o'}}, {0x1138b, 0x1138b, {'L', 'o'}},
    {0x1138e, 0x1138e, {'L', 'o'}}, {0x11390, 0x113b5, {'L', 'o'}}, {0x113b7, 0x113b7, {'L', 'o'}},
    {0x113b8, 0x113ba, {'M', 'c'}}, {0x113bb, 0x113c0, {'M', 'n'}}, {0x113c2, 0x113c2, {'M', 'c'}},
    {0x113c5, 0x113c5, {'M', 'c'}}, {0x113c7, 0x113ca, {'M', 'c'}}, {0x113cc, 0x113cd, {'M', 'c'}},
    {0x113ce, 0x113ce, {'M', 'n'}}, {0x113cf, 0x113cf, {'M', 'c'}}, {0x113d0, 0x113d0, {'M', 'n'}},
    {0x113d1, 0x113d1, {'L', 'o'}}, {0x113d2, 0x113d2, {'M', 'n'}}, {0x113d3, 0x113d3, {'L', 'o'}},
    {0x113d4, 0x113d5, {'P', 'o'}}, {0x113d7, 0x113d8, {'P', 'o'}}, {0x113e1, 0x113e2, {'M', 'n'}},
    {0x116d0, 0x116e3, {'N', 'd'}}, {0x11b00, 0x11b09, {'P', 'o'}}, {0x11bc0, 0x11be0, {'L', 'o'}},
    {0x11be1, 0x11be1, {'P', 'o'}}, {0x11bf0, 0x11bf9, {'N', 'd'}}, {0x11f00, 0x11f01, {'M', 'n'}},
    {0x11f02, 0x11f02, {'L', 'o'}}, {0x11f03, 0x11f03, {'M', 'c'}}, {0x11f04, 0x11f10, {'L', 'o'}},
    {0x11f12, 0x11f33, {'L', 'o'}}, {0x11f34, 0x11f35, {'M', 'c'}}, {0x11f36, 0x11f3a, {'M', 'n'}},
    {0x11f3e, 0x11f3f, {'M', 'c'}}, {0x11f40, 0x11f40, {'M', 'n'}}, {0x11f41, 0x11f41, {'M', 'c'}},
    {0x11f42, 0x11f42, {'M', 'n'}}, {0x11f43, 0x11f4f, {'P', 'o'}}, {0x11f50, 0x11f59, {'N', 'd'}},
    {0x11f5a, 0x11f5a, {'M', 'n'}}, {0x1342f, 0x1342f, {'L', 'o'}}, {0x13439, 0x1343f, {'C', 'f'}},
    {0x13440, 0x13440, {'M', 'n'}}, {0x13441, 0x13446, {'L', 'o'}}, {0x13447, 0x13455, {'M', 'n'}},
    {0x13460, 0x143fa, {'L', 'o'}}, {0x16100, 0x1611d, {'L', 'o'}}, {0x1611e, 0x16129, {'M', 'n'}},
    {0x1612a, 0x1612c, {'M', 'c'}}, {0x1612d, 0x1612f, {'M', 'n'}}, {0x16130, 0x16139, {'N', 'd'}},
    {0x16d40, 0x16d42, {'L', 'm'}}, {0x16d43, 0x16d6a, {'L', 'o'}}, {0x16d6b, 0x16d6c, {'L', 'm'}},
    {0x16d6d, 0x16d6f, {'P', 'o'}}, {0x16d70, 0x16d79, {'N', 'd'}}, {0x18cff, 0x18cff, {'L', 'o'}},
    {0x1b132, 0x1b132, {'L', 'o'}}, {0x1b155, 0x1b155, {'L', 'o'}}, {0x1cc00, 0x1ccef, {'S', 'o'}},
    {0x1ccf0, 0x1ccf9, {'N', 'd'}}, {0x1cd00, 0x1ceb3, {'S', 'o'}}, {0x1d2c0, 0x1d2d3, {'N', 'o'}},
    {0x1df25, 0x1df2a, {'L', 'l'}}, {0x1e030, 0x1e06d, {'L', 'm'}}, {0x1e08f, 0x1e08f, {'M', 'n'}},
    {0x1e4d0, 0x1e4ea, {'L', 'o'}}, {0x1e4eb, 0x1e4eb, {'L', 'm'}}, {0x1e4ec, 0x1e4ef, {'M', 'n'}},
    {0x1e4f0, 0x1e4f9, {'N', 'd'}}, {0x1e5d0, 0x1e5ed, {'L', 'o'}}, {0x1e5ee, 0x1e5ef, {'M', 'n'}},
    {0x1e5f0, 0x1e5f0, {'L', 'o'}}, {0x1e5f1, 0x1e5fa, {'N', 'd'}}, {0x1e5ff, 0x1e5ff, {'P', 'o'}},
    {0x1f6dc, 0x1f6dc, {'S', 'o'}}, {0x1f774, 0x1f776, {'S', 'o'}}, {0x1f77b, 0x1f77f, {'S', 'o'}},
    {0x1f7d9, 0x1f7d9, {'S', 'o'}}, {0x1f8b2, 0x1f8bb, {'S', 'o'}}, {0x1f8c0, 0x1f8c1, {'S', 'o'}},
    {0x1fa75, 0x1fa77, {'S', 'o'}}, {0x1fa87, 0x1fa89, {'S', 'o'}}, {0x1fa8f, 0x1fa8f, {'S', 'o'}},
    {0x1faad, 0x1faaf, {'S', 'o'}}, {0x1fabb, 0x1fabf, {'S', 'o'}}, {0x1fac6, 0x1fac6, {'S', 'o'}},
    {0x1face, 0x1facf, {'S', 'o'}}, {0x1fada, 0x1fadc, {'S', 'o'}}, {0x1fadf, 0x1fadf, {'S', 'o'}},
    {0x1fae8, 0x1fae9, {'S', 'o'}}, {0x1faf7, 0x1faf8, {'S', 'o'}}, {0x1fbcb, 0x1fbef, {'S', 'o'}},
    {0x2b739, 0x2b739, {'L', 'o'}}, {0x2ebf0, 0x2ee5d, {'L', 'o'}}, {0x31350, 0x323af, {'L', 'o'}}};

bool pcre2_knows_them() {
  static const bool known = [] {
    char version[64] = {};
    constexpr int kNewest = 16;
    return pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, version) > 0 && std::atoi(version) >= kNewest;
  }();
  return known;
}

}  // namespace

std::string added_characters(std::string_view property) {
  std::string members;
  if (property.empty() || property.size() > 2 || pcre2_knows_them()) {
    return members;
  }
  for (const Added& each : kAdded) {
    if (each.category[0] == property[0] &&
        (property.size() == 1 || each.category[1] == property[1])) {
      members += each.first == each.last
                     ? fmt::format("\\x{{{:x}}}", each.first)
                     : fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", each.first, each.last);
    }
  }
  return members;
}

std::string added_characters(std::initializer_list<std::string_view> properties) {
  std::string members;
  for (const std::string_view property : properties) {
    members += added_characters(property);
  }
  return members;
}

}  // namespace heed::text
