#pragma once

namespace heed::serve {

/// From here on, no thread of this process can open a network socket, run another program or trace
/// one: what an attacker could make a server do beyond answering. Sockets that are open stay so,
/// and connections are accepted as before; sockets of the local system (systemd) still work. False
/// where the kernel has no such filters.
bool forbid_outbound_connections();

}  // namespace heed::serve
