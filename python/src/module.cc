#include "module.h"

#include <nanobind/stl/string_view.h>

using namespace nanobind::literals;

NB_MODULE(_heed, m) {
  using namespace heed_python;
  m.attr("__version__") = heed::version();
  nb::exception<heed::Error>(m, "Error");
  bind_tensor(m);
  bind_ops(m);
  bind_reductions(m);
  bind_functional(m);
  bind_nn(m);
  bind_data(m);
  bind_pipelines(m);
  bind_tokenizer(m);
  bind_models(m);
  bind_pictures(m);
  bind_retrieval(m);
  m.def("set_num_threads", &heed::set_thread_count, "count"_a,
        "Threads that heed's loops use; results do not depend on it.");
  m.def("get_num_threads", &heed::thread_count);
}
