#include "heed/ops.h"
#include "serve/handlers.h"
#include "serve/image_field.h"
#include "serve/service.h"
#include "serve/translate.h"

namespace heed::serve {

void answer_caption(const CallPtr& call) {
  std::vector<ModelInput> inputs;
  for (const std::string& image : call->texts("image")) {
    ModelInput input;
    input.pixel_values = read_image(*call, image, "image");
    inputs.push_back(std::move(input));
  }
  if (inputs.empty()) {
    throw BadRequest("'image' is an empty list", "image");
  }
  generate_from_encoder(call, std::move(inputs), 0);
}

}  // namespace heed::serve
