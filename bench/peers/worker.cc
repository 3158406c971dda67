// heed's side of `./dev bench peers`: a process that does one work on command. A line of JSON comes
// in on stdin, a line goes out on stdout; between commands it waits without using the machine.
//   {"do":"prepare","kind":"train",…}  -> {"ok":true}
//   {"do":"run","repeats":3,"wake":true} -> {"seconds":[…]}   (wake: one run first that is not
//   counted)
//   {"do":"result"}                    -> {"values":[…]}
//   {"do":"memory"}                    -> {"peak":bytes}
#include <sys/resource.h>

#include <cstdio>
#include <iostream>
#include <string>

#include "base/check.h"
#include "io/json_writer.h"
#include "works.h"

namespace {

using heed::Json;
using heed::JsonWriter;

constexpr int64_t kMostRepeats = 100'000;

std::string answer(const Json& command, std::unique_ptr<heed::bench::PeerWork>& work) {
  const std::string what = command.string("do");
  JsonWriter json;
  json.begin_object();
  if (what == "prepare") {
    work = heed::bench::make_work(command);
    return json.field("ok", true).end_object().take();
  }
  if (what == "memory") {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return json.field("peak", usage.ru_maxrss * 1024).end_object().take();
  }
  heed::check(work != nullptr, "worker", "prepare a work first");
  if (what == "result") {
    return json.field("values", work->values()).end_object().take();
  }
  heed::check(what == "run", "worker", "'{}' is no command", what);
  if (command.find("wake") && command.boolean("wake")) {
    work->run();
  }
  std::vector<double> seconds;
  for (int64_t left = command.integer("repeats", 1, kMostRepeats); left > 0; --left) {
    seconds.push_back(work->run());
  }
  return json.field("seconds", seconds).end_object().take();
}

}  // namespace

int main() {
  std::unique_ptr<heed::bench::PeerWork> work;
  std::string line;
  while (std::getline(std::cin, line)) {
    std::string reply;
    try {
      reply = answer(Json::parse(line, "command"), work);
    } catch (const std::exception& error) {
      reply = JsonWriter().begin_object().field("error", error.what()).end_object().take();
    }
    std::printf("%s\n", reply.c_str());
    std::fflush(stdout);
  }
  return 0;
}
