#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "keras_files/h5_file.h"

namespace strata::keras_files::h5 {

/// bfloat16 as h5py writes it: two opaque bytes beside the attribute `dtype`.
inline constexpr const char* kBfloat16 = "bfloat16";

/// One HDF5 file being read, and the suspicion that a file from elsewhere deserves. Every error
/// names the source and the place in it.
class Input {
 public:
  /// `bytes` must outlive this.
  Input(std::span<const std::byte> bytes, std::string source, const ReadLimits& limits = {});
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  struct Object {
    std::string name;
    uint64_t address = kNowhere;
    std::shared_ptr<const ObjectHeader> header;

    bool is_group() const { return header->is_group; }
  };

  Object root();
  /// The members of `group`, by name; what is neither group nor dataset is left out.
  /// @throws Error kDataLoss: a link that is not hard, a name twice.
  std::vector<Object> members(const Object& group, const std::string& path);
  /// The object at `path` below `group`, each part of it checked; nullopt if it is missing.
  std::optional<Object> open(const Object& group, const std::string& path);

  at::Tensor read(const Object& dataset, const std::string& path);
  /// @throws Error kUnimplemented: one that libtorch does not have.
  at::ScalarType dtype_of(const Object& dataset, const std::string& path);

  /// Nullopt if it does not exist. @throws Error kDataLoss: no single string.
  std::optional<std::string> string_attribute(const Object& object, const std::string& name,
                                              const std::string& path);
  /// A list; those that were split over NAME0, NAME1, ... are joined. Nullopt if it does not exist.
  std::optional<std::vector<std::string>> strings_attribute(const Object& object,
                                                            const std::string& name,
                                                            const std::string& path);

  /// Called for each group once, on the way down. @throws Error kDataLoss: seen before (a cycle),
  /// or too deep.
  void enter(const Object& group, const std::string& path, int depth);

  const std::string& source() const { return source_; }

 private:
  std::string where(const std::string& path) const;
  Object open_link(const Link& link, const std::string& path);
  std::shared_ptr<const ObjectHeader> header_at(uint64_t address);
  void check_storage(const Object& dataset, const std::string& path) const;
  std::vector<int64_t> checked_shape(const Object& dataset, const std::string& path);

  std::string source_;
  Budget budget_;
  File file_;
  std::map<uint64_t, std::shared_ptr<const ObjectHeader>> headers_;  // each is parsed once
  std::set<uint64_t> seen_;
};

}  // namespace strata::keras_files::h5
