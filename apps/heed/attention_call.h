#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "heed/attention.h"
#include "heed/io.h"

namespace heed::app {

/// What `heed attention` was asked for.
struct AttentionCall {
  std::string input;
  std::string output;
  std::string variant = "scaled-dot";
  std::string kernel = "automatic";
  std::string causal = "none";
  std::optional<double> causal_offset;  ///< an integer: query i sees keys up to i + offset
  std::vector<int64_t> window;
  int64_t chunk = 128;
  std::optional<double> scale;
  double softcap = 0.0;
  bool no_weights = false;
  bool validate = false;
  // of single variants
  int64_t attention_window = 0;
  int64_t block_size = 64;
  int64_t random_blocks = 3;
  bool hf_compat = false;
  int64_t features = 256;
  int64_t height = 0;
  int64_t width = 0;
  int64_t window_size = 7;
  int64_t shift = 0;
  uint64_t seed = 0;
};

/// The tensors of the input file. Floating ones want a gradient where they are handed out.
class AttentionTensors {
 public:
  AttentionTensors(TensorMap tensors, std::string file)
      : tensors_(std::move(tensors)), file_(std::move(file)) {}

  Tensor find(const std::string& name) const;     ///< undefined where absent
  Tensor require(const std::string& name) const;  ///< an error where absent
  Tensor leaf(const std::string& name);           ///< required, with a gradient
  Tensor optional_leaf(const std::string& name);
  /// Everything handed out by leaf(), by name.
  const TensorMap& leaves() const { return leaves_; }
  const std::string& file() const { return file_; }

 private:
  TensorMap tensors_;
  TensorMap leaves_;
  std::string file_;
};

/// One kind of attention: its name, the tensors it reads beside q, k and v, and how it is called.
struct AttentionVariant {
  std::string name;
  std::string tensors;
  std::function<Tensor(const AttentionCall&, AttentionTensors&)> run;
  bool forms_weights;  ///< whether weights and lse can be given
  /// Of causal, scale, softcap, window, mask and key_padding those that it follows; the others are
  /// refused, not passed over.
  std::vector<std::string> follows;
};
const std::vector<AttentionVariant>& attention_variants();
/// Refuses options and tensors of the call that the variant does not follow.
void check_followed(const AttentionVariant& variant, const AttentionCall& call,
                    const AttentionTensors& tensors);

/// Whether later keys are hidden, and from where on: query i sees keys up to i + offset.
bool is_causal(const AttentionCall& call);
int64_t causal_offset(const AttentionCall& call, int64_t queries, int64_t keys);

/// Masks, scale and kernel of the call.
AttentionOptions attention_options(const AttentionCall& call, AttentionTensors& tensors,
                                   int64_t queries, int64_t keys);

}  // namespace heed::app
