#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gpu/fake_nccl/faults.h"
#include "gpu/fake_nccl/transport.h"

namespace strata::test::fake_nccl {

/// What ncclComm_t names. Its thread connects it, then runs what is enqueued, in order. After a failure the thread does nothing more:
/// what is pending stays so until abort or destroy.
/// Threads: any.
class Communicator {
 public:
  /// @param blocking  Of ncclConfig_t.
  Communicator(bool blocking, int device);
  ~Communicator();

  /// Begins to connect, without waiting.
  void begin(const ncclUniqueId& id, int rank, int ranks);

  /// Instead of begin: it will not be connected.
  void give_up(const Failure& failure);

  /// Waits until it is connected or cannot be, and says which.
  ncclResult_t wait_connected();

  bool blocking() const { return blocking_; }
  int device() const { return device_; }
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// ncclCommGetAsyncError.
  ncclResult_t async_error();
  std::string error_text() const { return health_.failure().text; }

  /// ncclSuccess where the next call may come.
  ncclResult_t ready(std::string* why_not);

  /// Puts the operations of one call or one group on their streams, and on the queue.
  void enqueue(std::vector<Operation> operations);

  /// Splits it when all in front has been done. @param child  Begun then; null: this rank joins none.
  /// @return What the split's end on this communicator was.
  std::future<ncclResult_t> split(int color, int key, std::shared_ptr<Communicator> child);

  /// ncclCommFinalize; where it blocks, returns when all is done.
  ncclResult_t finalize();
  /// Finalizes, unless it has failed, and waits some time; what is pending then has failed.
  void destroy();
  /// All that is pending has failed when this returns.
  void abort();

  uint64_t bytes_sent(int peer) const;

 private:
  // An entry of the queue.
  struct Work {
    std::vector<Operation> operations;
    std::vector<void*> tokens;  ///< Of its streams.
    bool is_split = false;
    bool is_end = false;  ///< Of finalize.
    int color = 0;
    int key = 0;
    std::shared_ptr<Communicator> child;
    std::promise<ncclResult_t> split_result;
  };
  using WorkPointer = std::unique_ptr<Work>;

  void run();
  void connect();
  void work();
  WorkPointer next();
  void execute(Work& work);
  void wait_for_streams(const Work& work);
  void apply_faults(size_t calls);
  void run_operations(const std::vector<Operation>& operations);
  void run_split(Work& work);
  void end_splits();
  void fail(const Failure& failure);
  void complete(Work& work, bool failed);

  const bool blocking_;
  const int device_;
  const Faults faults_;
  ncclUniqueId id_{};
  int rank_ = 0;
  int ranks_ = 0;

  Health health_;
  std::unique_ptr<Transport> transport_;  ///< Set by the thread, under the mutex.
  uint64_t calls_ = 0;                    ///< Of the thread.

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<WorkPointer> queue_;
  void* awaited_token_ = nullptr;  ///< What the thread waits for.
  bool connected_ = false;
  bool to_ask_ = false;  ///< Not blocking: ncclCommGetAsyncError has to be asked.
  bool ended_ = false;   ///< The thread takes no more work.
  bool finalizing_ = false;
  bool finalized_ = false;
  std::thread thread_;
};

}  // namespace strata::test::fake_nccl
