#pragma once

#include "works.h"

namespace heed::bench {

/// Works of whole pipelines: embed, transcribe.
std::unique_ptr<PeerWork> make_pipeline_work(const Json& command);

}  // namespace heed::bench
