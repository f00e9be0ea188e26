#include "collective/in_process/rendezvous.h"

#include "core/spin.h"

namespace strata::collective {
namespace {

constexpr std::chrono::microseconds kSpinTime{300};

std::string describe(const Rendezvous::Call& call) {
  return call.describe ? call.describe(call) : std::string(call.name);
}

/// Takes an arrival back, so that no rank can become the last to arrive. @return false: all are
/// here.
bool retract(std::atomic<int>& arrived, int all) {
  int count = arrived.load();
  while (count > 0 && count < all) {
    if (arrived.compare_exchange_weak(count, count - 1)) return true;
  }
  return false;
}

}  // namespace

const char* RoundAborted::what() const noexcept {
  return "[rendezvous] another replica's error ended this run";
}

Rendezvous::Rendezvous(int num_participants, const Options& options)
    : options_(options),
      clock_(options.clock ? *options.clock : Clock::system()),
      spin_(options.permits == nullptr),
      calls_(static_cast<size_t>(num_participants)) {}

void Rendezvous::begin_round() {
  for (Slot& slot : calls_) {
    slot.call = nullptr;
    slot.arrivals.store(0, std::memory_order_relaxed);
  }
  arrived_.store(0);
  left_.store(0);
  if (aborted_.load()) {
    MutexLock lock(mutex_);
    aborted_.store(false);
    status_ = Status();
  }
}

bool Rendezvous::enter(int id, const Call& call) {
  if (aborted_.load(std::memory_order_relaxed)) throw RoundAborted();
  Slot& slot = calls_[static_cast<size_t>(id)];
  slot.call = &call;
  slot.arrivals.fetch_add(1, std::memory_order_relaxed);
  const uint64_t round = generation_.load();
  // Sequentially consistent with `leave`: of an arrival and a departure, the later sees the
  // earlier.
  const int arrived = arrived_.fetch_add(1) + 1;
  // Once the barrier is passed, though, the thread that left has passed it: this thread was only
  // stopped for so long.
  if (left_.load() > 0 && generation_.load() == round) {
    fail_different_numbers();
    throw RoundAborted();
  }
  return arrived == num_participants();
}

void Rendezvous::wait(int id, const Call& call, uint64_t round) {
  const auto over = [this, round] {
    return generation_.load(std::memory_order_acquire) != round ||
           aborted_.load(std::memory_order_acquire);
  };
  if (!(spin_ && spin_until(over, kSpinTime))) {
    if (options_.permits) options_.permits->release();
    bool in_time;
    {
      MutexLock lock(mutex_);
      sleepers_.fetch_add(1);
      const auto wait_on = [&] {
        return clock_.wait_until(lock, changed_, clock_.now() + options_.timeout, over);
      };
      in_time = wait_on();
      // When all are here, the last is at work with what they brought: that must not go away.
      while (!in_time && !retract(arrived_, num_participants())) {
        in_time = wait_on();
      }
      sleepers_.fetch_sub(1);
    }
    if (!in_time) {  // Said before the permit is back: its holder may be the one who does not come.
      const auto seconds = std::chrono::duration<double>(options_.timeout).count();
      abort(Status(
          ErrorCode::kDeadlineExceeded,
          str_cat("[rendezvous] ", call.name, ": replica ", id, " waited ", seconds, " s for ",
                  absentees(id),
                  "; expected every replica to make the same calls; look for a replica that "
                  "computes very long or waits for another, or raise the strategy's timeout")));
    }
    if (options_.permits) options_.permits->acquire();
    if (!in_time) throw RoundAborted();
  }
  if (generation_.load(std::memory_order_acquire) == round) throw RoundAborted();
}

void Rendezvous::release() {
  arrived_.store(0, std::memory_order_relaxed);
  generation_.fetch_add(1);  // sequentially consistent with `sleepers_`
  if (sleepers_.load() > 0) {
    // Taking the lock makes sure that a thread that is about to sleep has either seen the change or
    // sleeps.
    MutexLock lock(mutex_);
    changed_.notify_all();
  }
}

void Rendezvous::leave(int id) {
  calls_[static_cast<size_t>(id)].call = nullptr;
  left_.fetch_add(1);
  if (arrived_.load() > 0) fail_different_numbers();
}

void Rendezvous::abort(Status status) {
  MutexLock lock(mutex_);
  if (status_.ok()) status_ = std::move(status);
  aborted_.store(true);
  changed_.notify_all();
}

Status Rendezvous::status() const {
  MutexLock lock(mutex_);
  return status_;
}

void Rendezvous::check_calls_agree() const {
  const Call& first = call(0);
  for (int i = 1; i < num_participants(); ++i) {
    const Call& other = call(i);
    if (other.key == first.key && other.name == first.name) continue;
    throw Error(
        ErrorCode::kFailedPrecondition,
        str_cat("[rendezvous] replicas disagree: replica 0 calls ", describe(first), ", replica ",
                i, " calls ", describe(other),
                "; every replica must make the same collective calls, with equal shapes and "
                "dtypes, in the same order"));
  }
}

void Rendezvous::fail_different_numbers() {
  std::string counts;
  for (int i = 0; i < num_participants(); ++i) {
    counts += str_cat(i ? ", " : "", calls_[static_cast<size_t>(i)].arrivals.load());
  }
  abort(Status(ErrorCode::kFailedPrecondition,
               str_cat("[rendezvous] Some replicas made a different number of "
                       "replica_context().merge_call() calls (all_reduce, all_gather and minimize "
                       "count too): replicas 0.. made ",
                       counts, "; take the same path through the function on every replica")));
}

std::string Rendezvous::absentees(int id) const {
  const auto local = calls_[static_cast<size_t>(id)].arrivals.load();
  std::string text = "replica(s)";
  for (int i = 0; i < num_participants(); ++i) {
    if (calls_[static_cast<size_t>(i)].arrivals.load() < local) text += str_cat(" ", i);
  }
  return text;
}

}  // namespace strata::collective
