#pragma once

namespace heed::app {

/// Takes from all threads of this process what a server that is ready never does again: to open
/// sockets for other machines, to connect anywhere, and to start programs. A call of these fails
/// with EPERM. False where the kernel has no seccomp filters; the server runs without one then.
bool forbid_outbound_connections();

}  // namespace heed::app
