#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "keras_files/h5_budget.h"
#include "keras_files/h5_bytes.h"

/// A reader of HDF5 files, for files that may be damaged or hostile.
///
/// Why strata has its own reader, although HDF5's library writes strata's files (hdf5.h): the
/// library trusts the numbers in a file. Damage makes it read and write outside of its buffers
/// (CVE-2024-29157, in the heap of texts, is one of dozens that were mended in 1.14.4; we saw
/// crashes in groups, heaps and messages of Debian 12's 1.10.8 with single bits flipped), and it
/// has no limits for memory or work, so that a small file can ask for any amount of both. This
/// reader compares every number with the bytes that are there and draws on a `Budget`; tests flip
/// bits, and a fuzz target feeds it any bytes. The writer meets no such data, and the library's
/// files are the format's reference.
///
/// It reads what Keras and h5py write by default: superblocks 0 to 3, groups as symbol tables or as
/// links in the header, attributes in the header, data in the header, in one piece or in chunks
/// with the version 1 B-tree, and the filters gzip, shuffle and fletcher32. It refuses what h5py
/// writes only on request (libver='latest': dense links and attributes, newer indices of chunks;
/// user blocks, committed types, other filters) with kUnimplemented and the way to write the file
/// again. External and virtual data and links are refused, since they lead out of the file.
///
/// Errors say what, not where; h5_input.h adds the place. Source: "HDF5 File Format Specification
/// Version 3.0".
namespace strata::keras_files::h5 {

struct Link {
  enum class Kind { kHard, kSoft, kOther };

  std::string name;
  Kind kind = Kind::kHard;
  uint64_t address = kNowhere;  ///< Of the object's header.
};

struct Datatype {
  enum class Class {
    kInteger = 0,
    kReal = 1,
    kString = 3,
    kOpaque = 5,
    kEnum = 8,
    kVariable = 9,
    kOther = 15,
  };

  Class kind = Class::kOther;
  int number = 0;  ///< HDF5's number of the class.
  uint64_t size = 0;
  bool big_endian = false;
  bool is_signed = false;  ///< Integers.
  int exponent_bits = 0, mantissa_bits = 0;
  bool is_text = false;   ///< Of variable length.
  bool is_plain = false;  ///< No padding bits; reals: the IEEE places.
};

struct Attribute {
  std::string name;
  Datatype type;
  uint64_t count = 0;
  bool is_empty = false;  ///< A shape with a 0.
  Bytes data;
};

struct Filter {
  uint64_t id = 0;
  std::string name = {};
};

struct Layout {
  enum class Kind { kInHeader, kWhole, kChunks, kVirtual, kOther };

  Kind kind = Kind::kOther;
  Bytes data;                   ///< In the header.
  uint64_t address = kNowhere;  ///< Of the data, or of the tree of chunks.
  uint64_t size = 0;            ///< Whole: stored bytes.
  std::vector<uint64_t> chunk;  ///< Elements along each dimension.
};

/// A group or a dataset.
struct ObjectHeader {
  bool is_group = false, is_dataset = false;
  std::vector<Link> links;
  std::vector<Attribute> attributes;

  Datatype type;
  std::vector<uint64_t> shape;
  bool has_shape = false;
  bool is_external = false;  ///< The data is in another file.
  Layout layout;
  std::vector<Filter> filters;
};

class File {
 public:
  /// `bytes` and `budget`, which every call draws on, must outlive this.
  /// @throws Error  kDataLoss: no HDF5, cut, damaged. kUnimplemented: a user block, other addresses
  ///                than of 8 bytes.
  File(Bytes bytes, Budget& budget);

  uint64_t root() const { return root_; }
  uint64_t size() const { return bytes_.size(); }

  /// @throws Error  kDataLoss: damaged. kUnimplemented: links or attributes outside of the header
  ///     in a form that h5py chooses only on request, committed types.
  ObjectHeader object(uint64_t address) const;

  /// The texts of an attribute of variable length.
  std::vector<std::string> texts(const Attribute& attribute);

  /// Stored bytes of a dataset, filters not undone.
  /// @throws Error  kDataLoss: more chunks than its shape has room for.
  uint64_t stored_size(const ObjectHeader& dataset) const;
  /// The elements, filters undone, as they are stored otherwise. What was never written is 0.
  /// @param out  As many bytes as shape and type ask for; zero.
  void read(const ObjectHeader& dataset, std::span<std::byte> out) const;

 private:
  struct Chunk {
    uint64_t address, size, mask;
    std::vector<uint64_t> begin = {};
  };

  Bytes at(uint64_t address, uint64_t size, const char* what) const {
    return slice(bytes_, address, size, what);
  }
  Bytes from(uint64_t address, const char* what) const;
  void read_symbols(uint64_t tree, uint64_t heap, std::vector<Link>& links) const;
  void read_symbol_tree(uint64_t address, int depth, Bytes heap, std::vector<Link>& links) const;
  std::vector<Chunk> chunks(const ObjectHeader& dataset) const;
  void read_chunk_tree(uint64_t address, int depth, size_t rank, std::vector<Chunk>& chunks) const;
  const std::map<uint16_t, Bytes>& heap(uint64_t address);

  Bytes bytes_;
  Budget& budget_;
  uint64_t root_ = kNowhere;
  std::map<uint64_t, std::map<uint16_t, Bytes>> heaps_;
};

}  // namespace strata::keras_files::h5
