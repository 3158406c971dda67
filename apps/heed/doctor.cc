#include "heed/doctor.h"

#include <fmt/format.h>
#include <hwy/targets.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "base/language.h"
#include "data/token_cache.h"
#include "draw/text_width.h"
#include "heed/command.h"
#include "heed/open.h"
#include "heed/runtime.h"
#include "heed/version.h"
#include "io/json_writer.h"
#include "kernels/amx.h"
#include "kernels/arm_bf16.h"
#include "kernels/gemm.h"
#include "train/memory_plan.h"

namespace heed::app {
namespace {

struct Finding {
  const char* key;   ///< in JSON
  std::string name;  ///< for people
  std::string value;
};

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") || line.starts_with("Model")) {
      const size_t begin = line.find(':');
      return begin == std::string::npos ? line : line.substr(begin + 2);
    }
  }
  utsname names{};
  return uname(&names) == 0 ? names.machine : "";
}

std::string system_name() {
  std::string name;
  std::ifstream file("/etc/os-release");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("PRETTY_NAME=")) {
      name = line.substr(line.find('=') + 1);
      std::erase(name, '"');
    }
  }
  utsname names{};
  if (uname(&names) == 0) {
    name += fmt::format("{}{} {}", name.empty() ? "" : ", ", names.sysname, names.release);
  }
  return name;
}

/// The vector instruction set in use: the best one that this machine has and heed was built for.
/// Then the others.
std::string simd_targets() {
  std::string best, others;
  const int64_t there = hwy::SupportedTargets() & HWY_TARGETS;
  for (int64_t bit = 1; bit > 0 && bit <= there; bit <<= 1) {
    if ((there & bit) != 0) {
      std::string name = hwy::TargetName(bit);
      if (name.starts_with("AVX3")) {  // Highway's AVX3_ZEN4 is AVX-512 with what Zen 4 adds
        name = "AVX-512" + name.substr(4);
        std::replace(name.begin(), name.end(), '_', ' ');
      }
      (best.empty() ? best : others) += (best.empty() || others.empty() ? "" : ", ") + name;
    }
  }
  return others.empty() ? best : tell("{} in use; also there: {}", best, others);
}

/// What multiplies bf16 numbers, and why AMX tiles or ARM's matrix instruction do not where the CPU
/// has them.
std::string bf16_products() {
  std::string others =
      kernels::uses_bf16_instructions() ? "AVX-512 BF16" : tell("in f32 arithmetic");
  switch (kernels::arm_bf16_state()) {
    case kernels::ArmBf16State::absent:
      break;
    case kernels::ArmBf16State::switched_off:
      return tell("{}; BFMMLA is switched off (HEED_ARM_BF16)", others);
    case kernels::ArmBf16State::wrong:
      return tell("{}; BFMMLA failed its self-check", others);
    case kernels::ArmBf16State::in_use:
      return "BFMMLA";
  }
  switch (kernels::amx_state()) {
    case kernels::AmxState::absent:
      return others;
    case kernels::AmxState::switched_off:
      return tell("{}; AMX tiles are switched off (HEED_AMX)", others);
    case kernels::AmxState::not_permitted:
      return tell("{}; the system does not permit AMX tiles", others);
    case kernels::AmxState::wrong:
      return tell("{}; AMX tiles failed their self-check", others);
    case kernels::AmxState::in_use:
      break;
  }
  return tell("AMX tiles");
}

std::string memory() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const std::string all =
      pages > 0
          ? size_text(static_cast<double>(pages) * static_cast<double>(sysconf(_SC_PAGE_SIZE)))
          : tell("unknown");
  const int64_t available = available_memory();
  return available == INT64_MAX  // such as without /proc
             ? tell("{}, unknown how much of it is available", all)
             : tell("{}, {} available", all, size_text(static_cast<double>(available)));
}

std::string build_options() {
  std::string text = fmt::format("{} {}", HEED_COMPILER, HEED_BUILD_TYPE);
#ifdef HEED_WITH_MPI
  text += ", MPI";
#endif
#ifdef NDEBUG
  text += ", NDEBUG";
#endif
  return text;
}

std::string hub_folder() {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string hub = variable("HF_HUB_CACHE"); !hub.empty()) {
    return hub;
  }
  if (const std::string home = variable("HF_HOME"); !home.empty()) {
    return home + "/hub";
  }
  const std::string cache = variable("XDG_CACHE_HOME");
  return (cache.empty() ? variable("HOME") + "/.cache" : cache) + "/huggingface/hub";
}

std::vector<Finding> findings() {
  const std::string folder = default_cache_folder().native();
  return {{"version", tell("version"), std::string(version())},
          {"system", tell("system"), system_name()},
          {"cpu", "CPU", cpu_name()},
          {"simd", "SIMD", simd_targets()},
          {"bf16", tell("bf16 products"), bf16_products()},
          {"threads", tell("threads"),
           tell("{} of {} hardware threads", thread_count(), std::thread::hardware_concurrency())},
          {"memory", tell("memory"), memory()},
          {"build", tell("build"), build_options()},
          {"token_cache", tell("token cache"),
           folder.empty() ? tell("none: neither XDG_CACHE_HOME nor HOME is set") : folder},
          {"hub_cache", tell("Hugging Face cache"), hub_folder()},
          {"language", tell("language"), std::string(message_language())}};
}

const Registration kRegistration{
    {"doctor",
     "Show what a bug report needs: CPU, SIMD, threads, memory, build, caches",
     {"heed doctor", "heed doctor --json"},
     [](OptionTable&, const Common& common) -> std::function<int()> {
       return [&common] {
         print(common.json ? doctor_json() : doctor_text());
         return 0;
       };
     }}};

}  // namespace

std::string doctor_text() {
  std::string text;
  for (const Finding& each : findings()) {
    text += fit(each.name, 22, Align::left) + each.value + "\n";
  }
  return text;
}

std::string doctor_json() {
  JsonWriter json;
  json.begin_object();
  for (const Finding& each : findings()) {
    json.field(each.key, each.value);
  }
  return json.end_object().take() + "\n";
}

}  // namespace heed::app
