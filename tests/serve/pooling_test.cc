// Embeddings of the server are those of the pipeline, however a folder pools.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "heed/pipelines.h"
#include "support/data.h"
#include "test_server.h"

namespace heed::test {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

TEST(Pooling, FollowsSentenceTransformersFiles) {
  for (const std::string mode : {"mean_tokens", "cls_token", "max_tokens"}) {
    const TemporaryFolder folder;
    fs::copy(small_models() / "encoder", folder / "pooled", fs::copy_options::recursive);
    fs::create_directory(folder / "pooled/1_Pooling");
    std::ofstream(folder / "pooled/modules.json")
        << R"([{"path": "", "type": "sentence_transformers.models.Transformer"},
               {"path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])";
    std::ofstream(folder / "pooled/1_Pooling/config.json")
        << json{{"pooling_mode_" + mode, true}}.dump();
    const FeatureExtraction pipeline(folder / "pooled");
    const Tensor expected = pipeline("the lazy dog sleeps", {.normalize = true});
    const TestServer server({(folder / "pooled").string()});
    const json answer = server.post("/v1/embeddings", {{"input", "the lazy dog sleeps"}}).json();
    const auto vector = answer["data"][0]["embedding"].get<std::vector<float>>();
    ASSERT_EQ(static_cast<int64_t>(vector.size()), expected.numel()) << answer;
    for (int64_t i = 0; i < expected.numel(); ++i) {
      EXPECT_NEAR(vector[static_cast<size_t>(i)], expected.data<float>()[i], 1e-6) << mode;
    }
  }
}

}  // namespace
}  // namespace heed::test
