#pragma once

#include <string>

namespace heed {

/// A metric as a person reads it, in the language of messages: "exact match" for "exact_match",
/// "nDCG@10" for "ndcg_10". Names that are not known stay as they are.
std::string metric_name(const std::string& name);

}  // namespace heed
