#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "keras_files/hdf5.h"

namespace strata::keras_files::h5 {

/// One HDF5 file being read, and the suspicion that a file from elsewhere deserves. Every error
/// names the source and the place in it.
class Input {
 public:
  /// `bytes` must outlive this.
  Input(std::span<const std::byte> bytes, std::string source);

  struct Object {
    std::string name;
    Handle handle;
    bool is_group = false;  ///< Else a dataset; other kinds are left out.
  };

  /// The root group.
  Handle root() const;
  /// The members of `group`, by name. @throws Error kDataLoss: a link that is not hard.
  std::vector<Object> members(hid_t group, const std::string& path) const;
  /// The object at `path` below `group`, each part of it checked; nullopt if it is missing.
  std::optional<Object> open(hid_t group, const std::string& path) const;

  at::Tensor read(hid_t dataset, const std::string& path);

  /// Nullopt if there is none. @throws Error kDataLoss: no single string.
  std::optional<std::string> string_attribute(hid_t object, const std::string& name,
                                              const std::string& path) const;
  /// A list; those that were split over NAME0, NAME1, ... are joined. Nullopt if there is none.
  std::optional<std::vector<std::string>> strings_attribute(hid_t object, const std::string& name,
                                                            const std::string& path) const;

  /// Called for each group once, on the way down. @throws Error kDataLoss: seen before (a cycle),
  /// or too deep.
  void enter(hid_t group, const std::string& path, int depth);

  const std::string& source() const { return source_; }

 private:
  std::string where(const std::string& path) const;
  Object open_member(hid_t group, const std::string& name, const std::string& path) const;
  void check_storage(hid_t dataset, const std::string& path) const;
  std::vector<int64_t> checked_shape(hid_t dataset, size_t item_bytes, const std::string& path);

  Session session_;  // first: the others are closed inside it
  std::string source_;
  uint64_t size_;
  Handle file_;
  std::set<uint64_t> seen_;
  uint64_t declared_bytes_ = 0;
};

}  // namespace strata::keras_files::h5
