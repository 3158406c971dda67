// Streams text from a model folder: stream_text MODEL [PROMPT]
#include <heed/heed.h>

#include <iostream>

using namespace heed;

int main(int argc, char** argv) {
  auto generate = heed::pipeline<TextGeneration>(argc > 1 ? argv[1] : "gpt2");
  generate(argc > 2 ? argv[2] : "The meaning of life is", {.max_new_tokens = 50},
           [](std::string_view piece) { std::cout << piece << std::flush; });
  std::cout << "\n";
}
