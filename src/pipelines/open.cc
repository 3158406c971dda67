#include <future>

#include "base/background.h"
#include "base/check.h"
#include "heed/pipelines.h"
#include "io/hub_cache.h"
#include "text/load_tokenizer.h"

namespace heed {

namespace fs = std::filesystem;

fs::path find_model(const fs::path& name) {
  const fs::path found = find_in_hub_cache(name);
  const bool run =
      !fs::exists(found / "config.json") && fs::exists(found / "model" / "config.json");
  return run ? found / "model" : found;
}

LoadedModel open_model(const fs::path& name, const OpenOptions& options) {
  LoadedModel loaded;
  const fs::path found = find_model(name);
  // An adapter has no tokenizer, template or preprocessor of its own.
  loaded.path = find_model(base_model_path(found));
  if (options.may_lack_tokenizer && options.tokenizer.empty() && fs::is_directory(loaded.path) &&
      !text::has_tokenizer(loaded.path)) {
    loaded.model = load_model(found, options.load);
    return loaded;
  }
  const fs::path source = options.tokenizer.empty() ? loaded.path : options.tokenizer;
  // Side by side: each takes tens of milliseconds with a file of the usual size.
  std::future<Tokenizer> reading = run_in_background([&source] { return Tokenizer::load(source); });
  loaded.model = load_model(found, options.load);
  const ModelKind kind = loaded.model->kind();
  if ((kind == ModelKind::vision || kind == ModelKind::regressor) && options.tokenizer.empty()) {
    reading.wait();  // a folder with a tokenizer or without
    return loaded;
  }
  loaded.tokenizer = reading.get();
  const int64_t rows = loaded.model->vocab_size();
  if (rows > 0 && loaded.tokenizer.vocab_size() > rows) {
    fail(ErrorKind::data, source.native(),
         "the tokenizer has {} tokens, the model {} embedding rows; they do not belong together",
         loaded.tokenizer.vocab_size(), rows);
  }
  return loaded;
}

}  // namespace heed
