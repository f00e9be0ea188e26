// Names of tasks, and what their certificates are called.
#include "strata/cluster/cluster_spec.h"

#include "fuzz/fuzz_target.h"
#include "wire/tls/certificates.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using strata::cluster::TaskId;
  const std::string_view text = strata::fuzz::text_of(data, size);
  (void)strata::fuzz::takes([&] { (void)strata::wire::certificate_name(text); });
  TaskId task;
  if (!strata::fuzz::takes([&] { task = TaskId::parse(text); })) return 0;
  strata::fuzz::expect(TaskId::parse(task.to_string()) == task, "parse(to_string(task)) == task");
  strata::fuzz::expect(TaskId::parse(task.short_name()) == task, "parse(short_name(task)) == task");
  return 0;
}
