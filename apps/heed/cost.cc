#include <fmt/format.h>

#include <memory>

#include "base/check.h"
#include "base/language.h"
#include "draw/text_width.h"
#include "heed/command.h"
#include "heed/inspect.h"
#include "heed/open.h"
#include "io/json_writer.h"

namespace heed::app::cost_command {
namespace {

struct Options {
  int64_t length = 1024, width = 512, kernel = 3, heads = 8, batch = 1;
  std::string type = "f32";
};

struct Row {
  const char* name;     ///< in JSON
  std::string shown;    ///< for people
  const char* formula;  ///< operations
  LayerCost cost;
};

constexpr int64_t kLengths[] = {128, 512, 1024, 4096, 16384, 65536};
constexpr double kMiB = 1024.0 * 1024.0;

std::vector<Row> rows_of(const Options& o) {
  return {
      {"self_attention", tell("self-attention"), "n² · d", self_attention_cost(o.length, o.width)},
      {"recurrent", tell("recurrent (RNN)"), "n · d²", recurrent_cost(o.length, o.width)},
      {"convolution", tell("convolution (CNN)"), "k · n · d²",
       convolution_cost(o.length, o.width, o.kernel)}};
}

void print_json(const Options& o, const std::vector<Row>& rows) {
  JsonWriter json;
  json.begin_object().field("length", o.length).field("width", o.width).field("kernel", o.kernel);
  json.key("layers").begin_object();
  for (const Row& row : rows) {
    json.key(row.name).begin_object().field("operations", row.cost.operations);
    json.field("sequential_steps", row.cost.sequential_steps);
    json.field("path_length", row.cost.path_length).end_object();
  }
  json.end_object().key("attention_memory").begin_array();
  for (const int64_t length : kLengths) {
    json.begin_object().field("length", length);
    json.field("bytes", attention_matrix_bytes(length, dtype_from_name(o.type), o.heads, o.batch));
    json.end_object();
  }
  print(json.end_array().end_object().take() + "\n");
}

void print_text(const Options& o, const std::vector<Row>& rows) {
  print(tell("One layer on n = {} positions of width d = {}, kernel k = {}\n", o.length, o.width,
             o.kernel));
  print(fit(tell("layer"), 20, Align::left) + fit(tell("operations"), 12, Align::left) +
        fit(tell("count"), 12, Align::right) + fit(tell("sequential"), 12, Align::right) +
        fit(tell("longest path"), 14, Align::right) + "\n");
  const Row* cheapest = &rows.front();
  for (const Row& row : rows) {
    cheapest = row.cost.operations < cheapest->cost.operations ? &row : cheapest;
    print(fit(row.shown, 20, Align::left) + fit(row.formula, 12, Align::left) +
          fmt::format("{:>12.3g}{:>12.0f}{:>14.0f}\n", row.cost.operations,
                      row.cost.sequential_steps, row.cost.path_length));
  }
  print(
      tell("Self-attention needs fewer operations than an RNN while n < d: here n {} d, and the "
           "cheapest is {}.\n\n",
           o.length < o.width    ? "<"
           : o.length == o.width ? "="
                                 : ">",
           cheapest->shown));
  print(tell("Attention weights written out, {} heads, batch {}, {}\n", o.heads, o.batch, o.type));
  print(fit(tell("length"), 8, Align::right) + fit("MiB", 14, Align::right) + "\n");
  for (const int64_t length : kLengths) {
    print(fmt::format(
        "{:>8}{:>14.2f}\n", length,
        attention_matrix_bytes(length, dtype_from_name(o.type), o.heads, o.batch) / kMiB));
  }
  print(
      tell("Twice the length takes four times the memory; heed's kernel never writes them out.\n"));
}

std::function<int()> setup(OptionTable& table, const Common& common) {
  auto o = std::make_shared<Options>();
  constexpr int64_t kMost = int64_t{1} << 30;
  table.add("--length", &o->length, "n: positions of the sequence").range(1, kMost);
  table.add("--width", &o->width, "d: hidden size").range(1, kMost);
  table.add("--kernel", &o->kernel, "k: width of a convolution").range(2, kMost);
  table.add("--heads", &o->heads, "Heads, for the memory of the weights").range(1, 1 << 20);
  table.add("--batch", &o->batch, "Sequences at once").range(1, 1 << 20);
  table.add("--dtype", &o->type, "Type of the weights").choices({"f32", "f16", "bf16"});
  return [o, &common] {
    const std::vector<Row> rows = rows_of(*o);
    common.json ? print_json(*o, rows) : print_text(*o, rows);
    return 0;
  };
}

const Registration kRegistration{
    {"cost",
     "Compare what RNN, CNN and self-attention cost, and the memory of attention",
     {"heed cost --length 100 --width 512",
      "heed cost --length 4096 --width 512 --kernel 7 --json"},
     setup}};

}  // namespace
}  // namespace heed::app::cost_command
