// Draws the attention of one head as a picture: draw_attention MODEL TEXT map.svg
#include <heed/heed.h>

using namespace heed;

int main(int, char** argv) {
  const LoadedModel loaded = open_model(argv[1]);
  const Encoding text = loaded.tokenizer.encode(argv[2]);
  const Recorder recorder;
  loaded.model->forward({.input_ids = unsqueeze(Tensor::from(text.ids), 0)});
  Heatmap map{.title = argv[2], .row_labels = text.tokens, .column_labels = text.tokens};
  const RecordedAttention& first = recorder.attentions().front();
  map.panels.push_back({"layer 0, head 0", first.pooled(0, 0, first.queries(), first.keys())});
  save_picture(argv[3], map);
}
