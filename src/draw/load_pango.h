// Pango and Cairo, found when the first picture is drawn instead of when heed starts. The Python
// wheel is built so (HEED_WHEEL): the two bring thirty libraries, more bytes than heed itself,
// and want X11 and GLib of the system. Where they are not installed, PNG alone is missing.
#pragma once

#include <pango/pangocairo.h>

#ifdef HEED_WHEEL

#include <dlfcn.h>

#include "base/check.h"

namespace heed {

/// The address of a function of Pango, Cairo or a library that they bring along.
inline void* find_in_pango(const char* name) {
  static void* const kLibrary = dlopen("libpangocairo-1.0.so.0", RTLD_LAZY);
  void* const found = kLibrary == nullptr ? nullptr : dlsym(kLibrary, name);
  if (found == nullptr) {
    fail(ErrorKind::runtime, "to_png",
         "PNG needs Pango and Cairo, which are not installed (Debian: libpangocairo-1.0-0); SVG "
         "needs nothing");
  }
  return found;
}

}  // namespace heed

/// A function of C under its own name, looked up when it is first called.
#define HEED_PANGO(name)                                                                           \
  [](auto... arguments) {                                                                          \
    static const auto kFunction = reinterpret_cast<decltype(&::name)>(heed::find_in_pango(#name)); \
    return kFunction(arguments...);                                                                \
  }

#define cairo_clip HEED_PANGO(cairo_clip)
#define cairo_create HEED_PANGO(cairo_create)
#define cairo_destroy HEED_PANGO(cairo_destroy)
#define cairo_fill HEED_PANGO(cairo_fill)
#define cairo_get_source HEED_PANGO(cairo_get_source)
#define cairo_image_surface_create HEED_PANGO(cairo_image_surface_create)
#define cairo_image_surface_get_data HEED_PANGO(cairo_image_surface_get_data)
#define cairo_image_surface_get_height HEED_PANGO(cairo_image_surface_get_height)
#define cairo_image_surface_get_stride HEED_PANGO(cairo_image_surface_get_stride)
#define cairo_image_surface_get_width HEED_PANGO(cairo_image_surface_get_width)
#define cairo_line_to HEED_PANGO(cairo_line_to)
#define cairo_move_to HEED_PANGO(cairo_move_to)
#define cairo_new_path HEED_PANGO(cairo_new_path)
#define cairo_paint HEED_PANGO(cairo_paint)
#define cairo_pattern_set_extend HEED_PANGO(cairo_pattern_set_extend)
#define cairo_pattern_set_filter HEED_PANGO(cairo_pattern_set_filter)
#define cairo_rectangle HEED_PANGO(cairo_rectangle)
#define cairo_restore HEED_PANGO(cairo_restore)
#define cairo_rotate HEED_PANGO(cairo_rotate)
#define cairo_save HEED_PANGO(cairo_save)
#define cairo_scale HEED_PANGO(cairo_scale)
#define cairo_set_dash HEED_PANGO(cairo_set_dash)
#define cairo_set_line_cap HEED_PANGO(cairo_set_line_cap)
#define cairo_set_line_join HEED_PANGO(cairo_set_line_join)
#define cairo_set_line_width HEED_PANGO(cairo_set_line_width)
#define cairo_set_source_rgb HEED_PANGO(cairo_set_source_rgb)
#define cairo_set_source_surface HEED_PANGO(cairo_set_source_surface)
#define cairo_status HEED_PANGO(cairo_status)
#define cairo_status_to_string HEED_PANGO(cairo_status_to_string)
#define cairo_stroke HEED_PANGO(cairo_stroke)
#define cairo_surface_destroy HEED_PANGO(cairo_surface_destroy)
#define cairo_surface_flush HEED_PANGO(cairo_surface_flush)
#define cairo_surface_mark_dirty HEED_PANGO(cairo_surface_mark_dirty)
#define cairo_translate HEED_PANGO(cairo_translate)
#define g_object_unref HEED_PANGO(g_object_unref)
#define pango_cairo_create_layout HEED_PANGO(pango_cairo_create_layout)
#define pango_cairo_show_layout HEED_PANGO(pango_cairo_show_layout)
#define pango_cairo_update_layout HEED_PANGO(pango_cairo_update_layout)
#define pango_font_description_free HEED_PANGO(pango_font_description_free)
#define pango_font_description_from_string HEED_PANGO(pango_font_description_from_string)
#define pango_font_description_set_absolute_size \
  HEED_PANGO(pango_font_description_set_absolute_size)
#define pango_font_description_set_weight HEED_PANGO(pango_font_description_set_weight)
#define pango_layout_get_baseline HEED_PANGO(pango_layout_get_baseline)
#define pango_layout_get_extents HEED_PANGO(pango_layout_get_extents)
#define pango_layout_set_font_description HEED_PANGO(pango_layout_set_font_description)
#define pango_layout_set_text HEED_PANGO(pango_layout_set_text)

#endif
