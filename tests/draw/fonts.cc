// For the leak detector only: fontconfig asserts where a thread of Pango still holds one of its
// objects.
#if defined(__SANITIZE_ADDRESS__)

#include <dlfcn.h>
#include <gtest/gtest.h>

namespace heed {
namespace {

template <class Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

/// Pango keeps fonts for the next picture. Fontconfig notes their parts as offsets, which a leak
/// detector does not take for pointers, so both are asked to release what they keep.
class KeptFonts : public testing::Environment {
 public:
  void TearDown() override {
    if (auto* forget = find<void(void*)>("pango_cairo_font_map_set_default")) {
      forget(nullptr);
    }
    if (auto* finish = find<void()>("FcFini")) {
      finish();
    }
  }
};

const testing::Environment* const kKeptFonts = testing::AddGlobalTestEnvironment(new KeptFonts);

}  // namespace
}  // namespace heed

#endif
