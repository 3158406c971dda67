// Folders of --models-dir that hold no model, or cannot be asked for.
#include "serve/model_registry.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/data.h"
#include "test_server.h"

namespace heed::test {
namespace {

using nlohmann::json;

/// A folder of models: "good", "broken", and one whose name is no UTF-8.
struct ModelsFolder {
  TemporaryFolder folder;
  std::vector<std::string> logged;

  ModelsFolder() {
    std::filesystem::copy(small_models() / "lm", folder / "good");
    std::filesystem::copy(small_models() / "lm", folder / "broken");
    std::ofstream(folder / "broken" / "model.safetensors") << "no tensors";
    std::filesystem::copy(small_models() / "lm", folder / "bad\xff");
  }
  ServeOptions options() {
    ServeOptions options;
    options.models_dir = folder.path();
    options.log = [this](const std::string& text) { logged.push_back(text); };
    return options;
  }
};

TEST(ModelRegistry, ABrokenModelIsTheRequestsErrorWithoutThePath) {
  ModelsFolder models;
  {
    const TestServer server({}, models.options());
    const json body = {{"model", "broken"}, {"prompt", "the"}, {"max_tokens", 1}};
    const Answer answer = server.post("/v1/completions", body);
    EXPECT_EQ(answer.status, 400) << answer.body;
    EXPECT_EQ(answer.json()["error"]["code"], "model_not_loadable");
    EXPECT_EQ(answer.param(), "model");
    EXPECT_EQ(answer.body.find(models.folder.path().native()), std::string::npos) << answer.body;
    const Answer shown = server.post("/heed/v1/traces", {{"model", "broken"}, {"text", "the"}});
    EXPECT_GE(shown.status, 400);
    EXPECT_EQ(shown.body.find(models.folder.path().native()), std::string::npos) << shown.body;
    const json good = {{"model", "good"}, {"prompt", "the"}, {"max_tokens", 1}};
    EXPECT_EQ(server.post("/v1/completions", good).status, 200);
  }
  EXPECT_TRUE(std::any_of(models.logged.begin(), models.logged.end(), [&](const std::string& line) {
    return line.find((models.folder / "broken").native()) != std::string::npos;
  }));
}

TEST(ModelRegistry, LittleMemoryIs503) {
  serve::ModelRegistry::Result result;
  result.failure = serve::ModelRegistry::Failure::memory;
  EXPECT_EQ(serve::not_loadable(result).status, 503);
  result.failure = serve::ModelRegistry::Failure::server;
  EXPECT_EQ(serve::not_loadable(result).status, 500);
}

TEST(ModelRegistry, ANameThatIsNoTextIsNotListed) {
  ModelsFolder models;
  const TestServer server({}, models.options());
  std::vector<std::string> names;
  const json list = server.get("/v1/models").json();
  for (const json& each : list["data"]) {
    names.push_back(each["id"]);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"broken", "good"}));
}

TEST(ModelRegistry, TheExplorersErrorsHaveTheTypeOfTheirStatus) {
  const TestServer server;
  EXPECT_EQ(server.get("/heed/v1/nothing").json()["error"]["type"], "not_found_error");
  const Answer bad = server.post("/heed/v1/traces", {{"model", "lm"}, {"text", 7}});
  EXPECT_EQ(bad.status, 400) << bad.body;
  EXPECT_EQ(bad.json()["error"]["type"], "invalid_request_error");
}

}  // namespace
}  // namespace heed::test
