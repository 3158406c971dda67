#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "faults/bench.h"

namespace heed::test {

/// A folder with small models of random weights, made once per process: lm (a GPT-2 of 512
/// positions that knows bytes), encoder (a BERT), classifier (a BERT whose labels hold escape
/// sequences) and speech (a Whisper that reads two seconds at a time).
const std::filesystem::path& small_models();

/// `heed serve lm=… OPTIONS` as a process of its own, on a free port.
class ServerProcess {
 public:
  explicit ServerProcess(const std::vector<std::string>& options = {},
                         const std::vector<std::pair<int, uint64_t>>& limits = {});
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  bool ready() const { return port_ > 0; }
  int port() const { return port_; }
  pid_t process() const { return process_; }
  bool alive() const;
  /// Sends a signal and waits: the exit code, or -1.
  int end(int signal);
  int64_t resident_bytes() const;

  /// Sends bytes on a new connection and gives what comes back until the server closes or the time
  /// is up.
  std::string exchange(const std::string& bytes, double seconds = 10.0) const;
  /// The status of the answer; 0 for none.
  int status(const std::string& bytes, double seconds = 10.0) const;
  std::string post(const std::string& path, const std::string& body,
                   const std::string& fields = {}) const;
  int post_status(const std::string& path, const std::string& body,
                  const std::string& fields = {}) const;
  std::string get(const std::string& path, const std::string& fields = {}) const;
  int get_status(const std::string& path, const std::string& fields = {}) const;
  /// A number of /metrics; -1 where it is not there.
  double metric(const std::string& name) const;
  bool metric_becomes(const std::string& name, double value, double seconds) const;

 private:
  TemporaryFolder folder_;
  mutable pid_t process_ = -1;
  int port_ = 0;
};

/// A connection that stays open; -1 where there is none.
int open_connection(int port);
bool send_all(int connection, const std::string& bytes);
std::string post_text(const std::string& path, const std::string& body,
                      const std::string& fields = {});
int status_of(const std::string& answer);

}  // namespace heed::test
