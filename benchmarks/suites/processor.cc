#include "suites/processor.h"

#include <sched.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "suites/stats.h"

namespace strata::bench {
namespace {

/// Those that decide which kernels run, here or in a peer.
constexpr const char* kInstructionSets[] = {"sse4_2",      "avx",         "avx2",     "fma",
                                            "avx512f",     "avx512bw",    "avx512vl", "avx512_vnni",
                                            "avx512_bf16", "avx512_fp16", "amx_tile", "amx_bf16",
                                            "amx_int8",    "asimd",       "sve"};

/// The first processor's fields.
std::map<std::string, std::string> processor_fields() {
  std::map<std::string, std::string> fields;
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line) && !line.empty();) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string name = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    fields[name] = colon + 2 <= line.size() ? line.substr(colon + 2) : "";
  }
  return fields;
}

}  // namespace

void print_processor(const std::string& suite) {
  std::map<std::string, std::string> fields = processor_fields();
  std::istringstream words(fields["flags"] + " " + fields["Features"]);  // x86; ARM
  std::set<std::string> flags;
  for (std::string word; words >> word;) flags.insert(word);
  std::string instructions;
  for (const char* each : kInstructionSets) {
    if (flags.contains(each)) instructions += (instructions.empty() ? "" : " ") + std::string(each);
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  JsonLine json;
  json.add("suite", suite).add("case", std::string()).add("system", std::string("processor"));
  json.add("metric", std::string("processor")).add("vendor", fields["vendor_id"]);
  json.add("family", fields["cpu family"]).add("model", fields["model"]);
  json.add("name", fields["model name"]).add("instructions", instructions);
  json.add("cores", static_cast<double>(CPU_COUNT(&set))).print();
}

}  // namespace strata::bench
