// The functions of <nccl.h>.
#include "gpu/fake_nccl/exported_nccl.h"

#include "gpu/fake_nccl/counters.h"
#include "gpu/fake_nccl/fake_nccl.h"
#include "gpu/fake_nccl/group.h"
#include "gpu/fake_nccl/reductions.h"
#include "gpu/fake_nccl/registry.h"
#include "gpu/fake_nccl/root.h"
#include "gpu/fake_nccl/streams.h"

using namespace strata::test::fake_nccl;

namespace {

using CommunicatorPointer = std::shared_ptr<Communicator>;

// An error of a call, which the group that it is in reports, too.
ncclResult_t reported(const Failure& failure) {
  set_last_error(failure.text);
  return Group::of_thread().fail(failure.code);
}

void require(bool condition, const std::string& text) {
  if (!condition) throw Failure{ncclInvalidArgument, text};
}

CommunicatorPointer open(ncclComm_t handle, const char* function) {
  CommunicatorPointer communicator = find_communicator(handle);
  require(communicator != nullptr, std::string(function) + ": no such communicator, or no longer");
  return communicator;
}

// One that takes a call.
CommunicatorPointer open_ready(ncclComm_t handle, const char* function) {
  CommunicatorPointer communicator = open(handle, function);
  std::string why_not;
  const ncclResult_t ready = communicator->ready(&why_not);
  if (ready != ncclSuccess) throw Failure{ready, std::string(function) + ": " + why_not};
  return communicator;
}

template <typename Call>
ncclResult_t guarded(const Call& call) {
  try {
    return call();
  } catch (const Failure& failure) {
    return reported(failure);
  }
}

// Runs `call` in the thread's group, or in one of its own.
template <typename Call>
ncclResult_t in_group(const Call& call) {
  Group& group = Group::of_thread();
  group.start();
  const ncclResult_t result = guarded(call);
  const ncclResult_t end = group.end();
  return result != ncclSuccess ? result : end;
}

void check(const Communicator& communicator, const Operation& operation, const std::string& name) {
  require(size_of(operation.type) != 0, name + ": no such type");
  if (has_reduction(operation.kind)) {
    require(can_reduce(operation.type), name + ": this library does not reduce the type");
    require(operation.op >= 0 && operation.op < ncclNumOps, name + ": no such reduction");
  }
  require(operation.peer >= 0 && operation.peer < communicator.ranks(),
          name + ": rank " + std::to_string(operation.peer) + " of " +
              std::to_string(communicator.ranks()));
  for (const auto& ranges : {reads_of(operation, communicator.rank(), communicator.ranks()),
                             writes_of(operation, communicator.rank(), communicator.ranks())}) {
    for (const Range& range : ranges) require(range.begin != nullptr, name + ": a buffer is null");
  }
}

ncclResult_t call(ncclComm_t comm, const Operation& operation) {
  return in_group([&] {
    const std::string name = std::string("nccl") + name_of(operation.kind);
    const CommunicatorPointer communicator = open_ready(comm, name.c_str());
    check(*communicator, operation, name);
    Group::of_thread().add(communicator, operation);
    return ncclSuccess;
  });
}

bool is_blocking(const ncclConfig_t* config, bool otherwise) {
  if (config == nullptr) return otherwise;
  require(config->magic == NCCL_API_MAGIC,
          "the configuration is not initialized: NCCL_CONFIG_INITIALIZER");
  if (config->blocking == NCCL_CONFIG_UNDEF_INT) return otherwise;
  require(config->blocking == 0 || config->blocking == 1,
          "the configuration's blocking is neither 0 nor 1");
  return config->blocking == 1;
}

ncclResult_t make(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank,
                  const ncclConfig_t* config, int device) {
  return in_group([&] {
    require(comm != nullptr, "ncclCommInitRank: comm is null");
    *comm = nullptr;
    require(ranks > 0 && rank >= 0 && rank < ranks,
            "ncclCommInitRank: rank " + std::to_string(rank) + " of " + std::to_string(ranks));
    folder_of(id);  // throws where it is none
    auto communicator = std::make_shared<Communicator>(is_blocking(config, true), device);
    communicator->begin(id, rank, ranks);
    *comm = add_communicator(communicator);
    Group::of_thread().add_made(communicator, comm);
    return ncclSuccess;
  });
}

template <typename T>
ncclResult_t tell(ncclComm_t comm, T* to, const char* function,
                  const std::function<T(Communicator&)>& value) {
  return guarded([&] {
    const CommunicatorPointer communicator = open(comm, function);
    require(to != nullptr, std::string(function) + ": the result's address is null");
    *to = value(*communicator);
    return ncclSuccess;
  });
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  return guarded([&] {
    require(version != nullptr, "ncclGetVersion: version is null");
    *version = version_to_report();
    return ncclSuccess;
  });
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* uniqueId) {
  return guarded([&] {
    require(uniqueId != nullptr, "ncclGetUniqueId: uniqueId is null");
    *uniqueId = make_unique_id();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank,
                                    ncclConfig_t* config) {
  return make(comm, nranks, commId, rank, config, device_hooks().current_device());
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId commId, int rank) {
  return make(comm, nranks, commId, rank, nullptr, device_hooks().current_device());
}

ncclResult_t ncclCommInitAll(ncclComm_t* comm, int ndev, const int* devlist) {
  return in_group([&] {
    require(comm != nullptr && ndev > 0, "ncclCommInitAll: no communicators are asked for");
    const ncclUniqueId id = make_unique_id();
    for (int i = 0; i < ndev; ++i) {
      const ncclResult_t result =
          make(&comm[i], ndev, id, i, nullptr, devlist == nullptr ? i : devlist[i]);
      if (result != ncclSuccess) return result;
    }
    return ncclSuccess;
  });
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* newcomm,
                           ncclConfig_t* config) {
  return in_group([&] {
    const CommunicatorPointer parent = open_ready(comm, "ncclCommSplit");
    require(newcomm != nullptr, "ncclCommSplit: newcomm is null");
    require(color >= 0 || color == NCCL_SPLIT_NOCOLOR,
            "ncclCommSplit: color " + std::to_string(color));
    *newcomm = nullptr;
    CommunicatorPointer child;
    if (color != NCCL_SPLIT_NOCOLOR) {
      child =
          std::make_shared<Communicator>(is_blocking(config, parent->blocking()), parent->device());
    }
    std::future<ncclResult_t> result = parent->split(color, key, child);
    if (child != nullptr) {
      *newcomm = add_communicator(child);
      Group::of_thread().add_made(child, newcomm);
      return ncclSuccess;
    }
    Group::of_thread().add_left_out(parent, std::move(result));
    return ncclSuccess;
  });
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return guarded([&] { return open_ready(comm, "ncclCommFinalize")->finalize(); });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return guarded([&] {
    if (comm == nullptr) return ncclSuccess;
    const CommunicatorPointer communicator = remove_communicator(comm);
    require(communicator != nullptr, "ncclCommDestroy: no such communicator, or no longer");
    communicator->destroy();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return guarded([&] {
    if (comm == nullptr) return ncclSuccess;
    const CommunicatorPointer communicator = remove_communicator(comm);
    require(communicator != nullptr, "ncclCommAbort: no such communicator, or no longer");
    communicator->abort();
    return ncclSuccess;
  });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* asyncError) {
  return tell<ncclResult_t>(comm, asyncError, "ncclCommGetAsyncError",
                            [](Communicator& communicator) { return communicator.async_error(); });
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return tell<int>(comm, count, "ncclCommCount",
                   [](Communicator& communicator) { return communicator.ranks(); });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return tell<int>(comm, device, "ncclCommCuDevice",
                   [](Communicator& communicator) { return communicator.device(); });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return tell<int>(comm, rank, "ncclCommUserRank",
                   [](Communicator& communicator) { return communicator.rank(); });
}

const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

// The communicator's own error, where it has one: the last of the process may be another's.
const char* ncclGetLastError(ncclComm_t comm) {
  thread_local std::string text;
  const CommunicatorPointer communicator = find_communicator(comm);
  text = communicator == nullptr ? "" : communicator->error_text();
  if (text.empty()) text = last_error();
  return text.c_str();
}

ncclResult_t ncclGroupStart() {
  Group::of_thread().start();
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() { return Group::of_thread().end(); }

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return call(comm, {.kind = Kind::kSend,
                     .input = sendbuff,
                     .count = count,
                     .type = datatype,
                     .peer = peer,
                     .stream = stream});
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return call(comm, {.kind = Kind::kRecv,
                     .output = recvbuff,
                     .count = count,
                     .type = datatype,
                     .peer = peer,
                     .stream = stream});
}

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, {.kind = Kind::kAllReduce,
                     .input = sendbuff,
                     .output = recvbuff,
                     .count = count,
                     .type = datatype,
                     .op = op,
                     .stream = stream});
}

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, {.kind = Kind::kReduce,
                     .input = sendbuff,
                     .output = recvbuff,
                     .count = count,
                     .type = datatype,
                     .op = op,
                     .peer = root,
                     .stream = stream});
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return call(comm, {.kind = Kind::kBroadcast,
                     .input = sendbuff,
                     .output = recvbuff,
                     .count = count,
                     .type = datatype,
                     .peer = root,
                     .stream = stream});
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return call(comm, {.kind = Kind::kReduceScatter,
                     .input = sendbuff,
                     .output = recvbuff,
                     .count = recvcount,
                     .type = datatype,
                     .op = op,
                     .stream = stream});
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return call(comm, {.kind = Kind::kAllGather,
                     .input = sendbuff,
                     .output = recvbuff,
                     .count = sendcount,
                     .type = datatype,
                     .stream = stream});
}

int fake_nccl_set_faults(const char* faults) {
  try {
    set_faults(faults);
    return 0;
  } catch (const Failure& failure) {
    set_last_error(failure.text);
    return 1;
  }
}

unsigned long long fake_nccl_operations(const char* kind) {
  return Counters::of_process().operations(kind);
}

unsigned long long fake_nccl_bytes_sent(int peer) { return Counters::of_process().bytes_to(peer); }

unsigned long long fake_nccl_bytes_sent_by(ncclComm_t comm, int peer) {
  const CommunicatorPointer communicator = find_communicator(comm);
  return communicator == nullptr ? 0 : communicator->bytes_sent(peer);
}

unsigned long long fake_nccl_bytes_to_other_hosts() {
  return Counters::of_process().bytes_to_other_hosts();
}

void fake_nccl_reset_counters() { Counters::of_process().reset(); }

int fake_nccl_open_communicators() { return count_communicators(); }

int fake_nccl_stream_synchronize(cudaStream_t stream, int timeout_ms) {
  return synchronize_plain_stream(stream, timeout_ms);
}

}  // extern "C"
