#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

#include "core/mutex.h"
#include "strata/core/error.h"

/// HDF5's C interface, with owners and errors. For writing alone: h5_file.h reads, and says why.
namespace strata::keras_files::h5 {

/// An id of HDF5's and the function that gives it back.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);

  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept { swap(other); }
  Handle& operator=(Handle&& other) noexcept {
    swap(other);
    return *this;
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) close_(id_);
  }

  hid_t get() const { return id_; }

 private:
  void swap(Handle& other) {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
  }

  hid_t id_ = -1;
  Close close_ = nullptr;
};

/// Held around every use of HDF5: not each build of it takes several threads. HDF5 prints nothing
/// meanwhile; `cause` has what it would have said.
class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

 private:
  MutexLock lock_;
  H5E_auto2_t print_ = nullptr;
  void* print_data_ = nullptr;
};

/// What HDF5 says of its last failure: the innermost cause.
std::string cause();

/// IEEE half precision, which HDF5 1.10 does not name. Little-endian.
Handle half_type();
/// A variable-length UTF-8 string, as h5py writes attributes.
Handle string_type();

}  // namespace strata::keras_files::h5
