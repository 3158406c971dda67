#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>

#include "module.h"

using namespace nanobind::literals;

namespace heed_python {
namespace {

using Labels = std::vector<std::string>;
using Panels = std::vector<std::pair<std::string, Tensor>>;

heed::Heatmap heatmap(const Panels& panels, const Labels& rows, const Labels& columns,
                      const std::string& title, const std::string& row_title,
                      const std::string& column_title, const std::string& language) {
  heed::Heatmap map;
  map.title = title;
  for (const auto& [name, values] : panels) {
    map.panels.push_back({name, heed::cast(values.detach(), DType::f32)});
  }
  map.row_labels = rows;
  map.column_labels = columns;
  map.row_title = row_title;
  map.column_title = column_title;
  map.language = language;
  return map;
}

/// One page for groups of maps: (kind, row labels, column labels, [(layer, head, values)]).
using PageMaps = std::vector<std::tuple<int64_t, int64_t, Tensor>>;
using PageGroups = std::vector<std::tuple<std::string, Labels, Labels, PageMaps>>;

std::string attention_page(const PageGroups& groups, const std::string& title,
                           const std::string& language) {
  std::vector<heed::ExplorerMaps> all;
  for (const auto& [kind, rows, columns, maps] : groups) {
    heed::ExplorerMaps group{kind, rows, columns, {}};
    for (const auto& [layer, head, values] : maps) {
      group.maps.push_back({layer, head, heed::cast(values.detach(), DType::f32).contiguous()});
    }
    all.push_back(std::move(group));
  }
  return heed::explorer_file(all, title, language);
}

}  // namespace

void bind_pictures(nb::module_& m) {
  nb::class_<heed::Heatmap>(m, "Heatmap", "Heat maps with common axes.")
      .def(
          "__init__",
          [](heed::Heatmap* self, const Panels& panels, const Labels& rows, const Labels& columns,
             const std::string& title, const std::string& row_title,
             const std::string& column_title, const std::string& language) {
            new (self) heed::Heatmap(
                heatmap(panels, rows, columns, title, row_title, column_title, language));
          },
          "panels"_a, "row_labels"_a, "column_labels"_a, "title"_a, "row_title"_a, "column_title"_a,
          "language"_a)
      .def("text", [](const heed::Heatmap& self) { return heed::to_terminal(self); })
      .def("svg", [](const heed::Heatmap& self) { return heed::to_svg(self); })
      .def("png",
           [](const heed::Heatmap& self) {
             const std::string bytes = heed::to_png(self);
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def(
          "save",
          [](const heed::Heatmap& self, const std::filesystem::path& path) {
            heed::save_picture(path, self);
          },
          "path"_a);
  m.def(
      "line_plot_svg",
      [](const std::vector<std::tuple<std::string, std::vector<double>, std::vector<double>>>&
             series,
         const std::string& title, const std::string& x_title, const std::string& y_title,
         bool log_x, bool log_y) {
        heed::LinePlot plot;
        plot.title = title;
        plot.x_title = x_title;
        plot.y_title = y_title;
        plot.log_x = log_x;
        plot.log_y = log_y;
        for (const auto& [name, x, y] : series) {
          plot.series.push_back({name, x, y});
        }
        return heed::to_svg(plot);
      },
      "series"_a, "title"_a, "x_title"_a, "y_title"_a, "log_x"_a, "log_y"_a);
  m.def("attention_page", &attention_page, "groups"_a, "title"_a, "language"_a,
        "One HTML file with maps that answer to the mouse and the keyboard; needs no network.");
  m.def(
      "patch_svg",
      [](const Tensor& image, const Panels& panels, const std::string& title) {
        heed::PatchPicture picture;
        picture.title = title;
        picture.image = image;
        for (const auto& [name, values] : panels) {
          picture.panels.push_back({name, heed::cast(values.detach(), DType::f32).contiguous()});
        }
        return heed::to_svg(picture);
      },
      "image"_a, "panels"_a, "title"_a,
      "An image u8 [H, W, 3] overlaid with the weights of its patches, once per panel.");
}

}  // namespace heed_python
