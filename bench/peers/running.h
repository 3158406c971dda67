#pragma once

#include "works.h"

namespace heed::bench {

/// Works that run a model step by step: prefill, decode, answer, translate.
std::unique_ptr<PeerWork> make_running_work(const Json& command);

}  // namespace heed::bench
