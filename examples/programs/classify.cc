// Labels texts with a classifier: classify MODEL TEXT…
#include <heed/heed.h>

#include <iostream>

using namespace heed;

int main(int argc, char** argv) {
  auto classify = heed::pipeline<TextClassification>(argc > 1 ? argv[1] : "model");
  for (const auto& scores : classify(std::vector<std::string>(argv + 2, argv + argc))) {
    std::cout << scores.front().label << " " << scores.front().score << "\n";
  }
}
