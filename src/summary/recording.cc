#include "strata/summary/recording.h"

#include <utility>

namespace strata::summary {
namespace {

thread_local bool condition_holds = true;
thread_local bool replica_records = true;

}  // namespace

bool should_record_summaries() { return condition_holds && replica_records; }

RecordIf::RecordIf(bool condition) : previous_(std::exchange(condition_holds, condition)) {}
RecordIf::~RecordIf() { condition_holds = previous_; }

void detail::set_replica_records(bool records) { replica_records = records; }

}  // namespace strata::summary
