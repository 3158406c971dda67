#include "heed/ops.h"
#include "serve/handlers.h"
#include "serve/image_field.h"
#include "serve/service.h"
#include "serve/translate.h"

namespace heed::serve {

void answer_caption(const CallPtr& call) {
  std::vector<ModelInput> inputs;
  for (Tensor& pixels : read_images(*call, "image")) {
    inputs.emplace_back().pixel_values = std::move(pixels);
  }
  generate_from_encoder(call, std::move(inputs), 0);
}

}  // namespace heed::serve
