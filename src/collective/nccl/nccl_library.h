#pragma once

#include <nccl.h>

#include <string>
#include <string_view>

namespace strata::collective::nccl {

/// The variable of the environment that names NCCL's library.
inline constexpr const char* kLibraryVariable = "STRATA_NCCL";

/// NCCL 2.18 or later: its functions by name, without "nccl". strata is linked with none: the library is opened while the program
/// runs, once a process, and stays until it ends. A build of libtorch with CUDA has loaded it already.
/// Threads: any.
/// Source: nccl.h, version 2.32.3.
struct Library {
  decltype(&::ncclGetVersion) get_version;
  decltype(&::ncclGetUniqueId) get_unique_id;
  decltype(&::ncclCommInitRankConfig) comm_init_rank_config;
  decltype(&::ncclCommInitAll) comm_init_all;
  decltype(&::ncclCommSplit) comm_split;
  decltype(&::ncclCommFinalize) comm_finalize;
  decltype(&::ncclCommDestroy) comm_destroy;
  decltype(&::ncclCommAbort) comm_abort;
  decltype(&::ncclCommGetAsyncError) comm_get_async_error;
  decltype(&::ncclCommCount) comm_count;
  decltype(&::ncclCommUserRank) comm_user_rank;
  decltype(&::ncclGetErrorString) get_error_string;
  decltype(&::ncclGetLastError) get_last_error;
  decltype(&::ncclGroupStart) group_start;
  decltype(&::ncclGroupEnd) group_end;
  decltype(&::ncclSend) send;
  decltype(&::ncclRecv) recv;
  decltype(&::ncclAllReduce) all_reduce;
  decltype(&::ncclReduce) reduce;
  decltype(&::ncclBroadcast) broadcast;
  decltype(&::ncclReduceScatter) reduce_scatter;
  decltype(&::ncclAllGather) all_gather;

  /// As ncclGetVersion says: 21805 is 2.18.5.
  int version = 0;
};

/// The process's library: the file that STRATA_NCCL names when the first call comes, or else libnccl.so.2.
/// @param why_not  Gets what is missing; may be null.
/// @return Null: no usable library was found.
const Library* find(std::string* why_not = nullptr);

/// @param caller  For the message: "nccl_all_reduce".
/// @throws Error  kUnimplemented: no usable library was found; says what is missing and how to get it.
const Library& require(std::string_view caller);

/// Opens one library; for tests of what `find` says. @param path  Empty: libnccl.so.2.
/// @return Whether it is usable; `library` is filled.
bool open(const std::string& path, Library& library, std::string& why_not);

}  // namespace strata::collective::nccl
