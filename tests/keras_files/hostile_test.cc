// Small files that were made to cost much: memory, or time without end. Each is refused for a
// second and 64 MB at most.
#include <gtest/gtest.h>

#include <algorithm>

#include "keras_files/keras_archive.h"
#include "keras_files/legacy_model.h"
#include "keras_files/weights_file.h"
#include "support/cost_of.h"
#include "support/expect_error.h"

namespace strata::keras_files {
namespace {

using test::expect_refused_cheaply;

/// HDF5 of the first version, written part by part; every part says where it lies.
class Hdf5 {
 public:
  Hdf5() {
    bytes_ = std::string("\x89HDF\r\n\x1a\n", 8) + std::string(5, '\0') + "\x08\x08";
    bytes_ += std::string(9, '\0');  // free space's version and so on
    number(0, 8).number(~uint64_t{0}, 8).number(0, 8).number(~uint64_t{0}, 8).number(0, 8);
    number(0, 8);  // the root, which is known later
  }

  Hdf5& number(uint64_t value, int width) {
    for (int i = 0; i < width; ++i) bytes_ += static_cast<char>(value >> (8 * i));
    return *this;
  }
  uint64_t part(const std::string& bytes) {
    const uint64_t address = bytes_.size();
    bytes_ += bytes;
    return address;
  }
  uint64_t size() const { return bytes_.size(); }

  /// An object of these messages (type, data).
  uint64_t object(const std::vector<std::pair<int, std::string>>& messages) {
    std::string all;
    for (const auto& [type, data] : messages) {
      all += le(static_cast<uint64_t>(type), 2) + le(data.size(), 2) + le(0, 4) + data;
    }
    return part(le(1, 2) + le(messages.size(), 2) + le(1, 4) + le(all.size(), 4) + le(0, 4) + all);
  }
  /// Where members' names lie, a byte behind one another if there are no `names`.
  uint64_t heap(const std::string& names) {
    const uint64_t data = part(names);
    return part("HEAP" + le(0, 4) + le(names.size(), 8) + le(0, 8) + le(data, 8));
  }
  uint64_t group(uint64_t tree, uint64_t heap) {
    return object({{0x11, le(tree, 8) + le(heap, 8)}});
  }
  uint64_t tree_node(int type, int level, const std::string& entry, uint64_t count) {
    std::string bytes = "TREE" + le(static_cast<uint64_t>(type), 1) +
                        le(static_cast<uint64_t>(level), 1) + le(count, 2) + le(0, 16);
    for (uint64_t i = 0; i < count; ++i) bytes += entry;
    return part(bytes);
  }

  std::string whole(uint64_t root) {
    const auto put = [&](size_t offset, uint64_t value) {
      bytes_.replace(offset, 8, le(value, 8));
    };
    put(40, bytes_.size());
    put(64, root);
    return bytes_;
  }

  static std::string le(uint64_t value, int width) {
    std::string bytes;
    for (int i = 0; i < width; ++i) {
      bytes += i < 8 ? static_cast<char>(value >> (8 * i)) : '\0';
    }
    return bytes;
  }

 private:
  std::string bytes_;
};

auto le(uint64_t value, int width) { return Hdf5::le(value, width); }

void parse_h5(const std::string& bytes) { parse_weights(std::as_bytes(std::span(bytes)), "w.h5"); }

/// A tree of `levels`, in which the 16 children of each node are one and the same.
uint64_t one_child_tree(Hdf5& file, int type, const std::string& key, uint64_t leaf, int levels) {
  uint64_t child = leaf;
  for (int level = 0; level < levels; ++level) {
    child = file.tree_node(type, level, key + le(child, 8), 16);
  }
  return child;
}

TEST(HostileHdf5Test, ATreeOfMembersWhoseChildrenAreOneNode) {
  Hdf5 file;
  const uint64_t leaf = file.part("SNOD" + le(1, 4));
  const uint64_t tree = one_child_tree(file, 0, le(0, 8), leaf, 20);
  const std::string bytes = file.whole(file.group(tree, file.heap("x")));
  ASSERT_LT(bytes.size(), 8000U);
  expect_refused_cheaply([&] { parse_h5(bytes); }, ErrorCode::kDataLoss,
                         "[keras_files] w.h5: /: damaged (parts of the file are used again and "
                         "again, more than its bytes can hold)");
}

/// A group that holds the group `vars`, and in it the datasets `0`, `1`, ... at these addresses.
std::string with_datasets(Hdf5& file, const std::vector<uint64_t>& addresses) {
  std::string names = std::string("vars\0", 5), symbols;
  for (size_t i = 0; i < addresses.size(); ++i) {
    symbols += le(names.size(), 8) + le(addresses[i], 8) + le(0, 24);
    names += std::to_string(i) + '\0';
  }
  const uint64_t heap = file.heap(names);
  const uint64_t inner = file.part("SNOD" + le(1, 2) + le(addresses.size(), 2) + symbols);
  const uint64_t vars = file.group(file.tree_node(0, 0, le(0, 8) + le(inner, 8), 1), heap);
  const uint64_t outer =
      file.part("SNOD" + le(1, 2) + le(1, 2) + le(0, 8) + le(vars, 8) + le(0, 24));
  return file.whole(file.group(file.tree_node(0, 0, le(0, 8) + le(outer, 8), 1), heap));
}

std::string uint8_type() { return le(0x10, 1) + le(0, 3) + le(1, 4) + le(0, 2) + le(8, 2); }
std::string shape_message(uint64_t size) { return le(1, 1) + le(1, 1) + le(0, 6) + le(size, 8); }
std::string chunk_layout(uint64_t tree, uint64_t chunk) {
  return le(3, 1) + le(2, 1) + le(2, 1) + le(tree, 8) + le(chunk, 4) + le(1, 4);
}

TEST(HostileHdf5Test, ATreeOfChunksWhoseChildrenAreOneNode) {
  Hdf5 file;
  const std::string key = le(8, 4) + le(0, 4) + le(0, 16);
  const uint64_t leaf = file.tree_node(1, 0, "", 0);
  uint64_t child = leaf;
  for (int level = 1; level < 20; ++level) child = file.tree_node(1, level, key + le(child, 8), 16);
  const uint64_t dataset = file.object(
      {{0x01, shape_message(64)}, {0x03, uint8_type()}, {0x08, chunk_layout(child, 8)}});
  const std::string bytes = with_datasets(file, {dataset});
  expect_refused_cheaply([&] { parse_h5(bytes); }, ErrorCode::kDataLoss,
                         "[keras_files] w.h5: vars/0: damaged (parts of the file are used");
}

TEST(HostileHdf5Test, MoreChunksThanTheShapeHasRoomFor) {
  Hdf5 file;
  const uint64_t data = file.part(std::string(8, 'x'));
  const uint64_t tree = file.tree_node(1, 0, le(8, 4) + le(0, 4) + le(0, 16) + le(data, 8), 1000);
  const uint64_t dataset =
      file.object({{0x01, shape_message(64)}, {0x03, uint8_type()}, {0x08, chunk_layout(tree, 8)}});
  const std::string bytes = with_datasets(file, {dataset});
  expect_refused_cheaply([&] { parse_h5(bytes); }, ErrorCode::kDataLoss,
                         "vars/0: damaged (more chunks than the shape has room for)");
}

TEST(HostileHdf5Test, LinksToTheGroupThatHoldsThem) {
  for (const uint64_t links : {1000, 2000, 6000}) {
    Hdf5 file;
    std::string names;
    for (uint64_t i = 0; i < links; ++i) names += std::to_string(i) + '\0';
    const uint64_t heap = file.heap(names);
    const uint64_t root = file.size() + 40 + (8 + 40 * links);  // behind the tree and its leaf
    std::string symbols;
    uint64_t name = 0;
    for (uint64_t i = 0; i < links; ++i) {
      symbols += le(name, 8) + le(root, 8) + le(0, 24);
      name += std::to_string(i).size() + 1;
    }
    const uint64_t leaf = file.part("SNOD" + le(1, 2) + le(links, 2) + symbols);
    const uint64_t tree = file.tree_node(0, 0, le(0, 8) + le(leaf, 8), 1);
    ASSERT_EQ(file.group(tree, heap), root);
    const std::string bytes = file.whole(root);
    expect_refused_cheaply([&] { parse_h5(bytes); }, ErrorCode::kDataLoss,
                           "got a group that has a second place in the file; expected a tree");
  }
}

TEST(HostileHdf5Test, LinksWhoseNamesAreOneLongText) {
  Hdf5 file;
  constexpr uint64_t kLinks = 8000;
  const uint64_t heap = file.heap(std::string(200'000, 'n') + '\0');
  std::string symbols;
  for (uint64_t i = 0; i < kLinks; ++i) symbols += le(i, 8) + le(0, 32);
  const uint64_t leaf = file.part("SNOD" + le(1, 2) + le(kLinks, 2) + symbols);
  const std::string bytes =
      file.whole(file.group(file.tree_node(0, 0, le(0, 8) + le(leaf, 8), 1), heap));
  expect_refused_cheaply([&] { parse_h5(bytes); }, ErrorCode::kDataLoss,
                         "names and texts are used again and again");
}

TEST(HostileHdf5Test, ALargeDatasetThatIsManyMembers) {
  Hdf5 file;
  constexpr uint64_t kSize = 1 << 20;
  const uint64_t data = file.part(std::string(kSize, 'x'));
  const uint64_t dataset = file.object({{0x01, shape_message(kSize)},
                                        {0x03, uint8_type()},
                                        {0x08, le(3, 1) + le(1, 1) + le(data, 8) + le(kSize, 8)}});
  const std::string bytes = with_datasets(file, std::vector<uint64_t>(1000, dataset));
  const test::Cost cost = test::cost_of([&] { parse_h5(bytes); });
  EXPECT_NE(cost.outcome.find("data is used again and again"), std::string::npos) << cost.outcome;
  EXPECT_LT(cost.peak_mb, 128);
}

TEST(HostileHdf5Test, ALimitThatAFileReachesIsNamed) {
  Hdf5 file;
  const uint64_t dataset = file.object({{0x01, shape_message(4)},
                                        {0x03, uint8_type()},
                                        {0x08, le(3, 1) + le(0, 1) + le(4, 2) + "abcd"}});
  const std::string bytes = with_datasets(file, {dataset, dataset, dataset});
  const auto span = std::as_bytes(std::span(bytes));
  EXPECT_EQ(parse_weights(span, "w.h5").vars.size(), 3U);
  expect_error_containing([&] { parse_weights(span, "w.h5", {.parts = 5}); },
                          ErrorCode::kResourceExhausted,
                          "expected at most 5 (ReadLimits::parts raises it)");
}

/// A zip archive that says of each of its members that it becomes `becomes` bytes.
std::string zip_that_promises(size_t members, size_t stored, uint64_t becomes) {
  std::string bytes, list;
  for (size_t i = 0; i < members; ++i) {
    const std::string name = "assets/" + std::to_string(i);
    const std::string common = le(20, 2) + le(0, 2) + le(8, 2) + le(0, 8) + le(stored, 4) +
                               le(becomes, 4) + le(name.size(), 2);
    list += "PK\x01\x02" + le(20, 2) + common + le(0, 12) + le(bytes.size(), 4) + name;
    bytes += "PK\x03\x04" + common + le(0, 2) + name + std::string(stored, 'z');
  }
  const size_t begin = bytes.size();
  return bytes + list + "PK\x05\x06" + le(0, 4) + le(members, 2) + le(members, 2) +
         le(list.size(), 4) + le(begin, 4) + le(0, 2);
}

void parse_zip(const std::string& bytes, const ReadLimits& limits = {}) {
  parse_keras_archive(std::as_bytes(std::span(bytes)), "m.keras", {.limits = limits});
}

TEST(HostileArchiveTest, ManyMembersThatBecomeMuchTogether) {
  const std::string bytes = zip_that_promises(2000, 1016, 1 << 20);
  ASSERT_LT(bytes.size(), 2'300'000U);
  expect_refused_cheaply([&] { parse_zip(bytes); }, ErrorCode::kResourceExhausted,
                         "expected at most 100 times as many (ReadLimits::expansion raises it)");
  // With another limit the archive is read on, up to what it lacks.
  expect_error_containing([&] { parse_zip(bytes, {.expansion = 10000}); }, ErrorCode::kDataLoss,
                          "member config.json: missing");
  expect_error_containing(
      [&] { parse_zip(bytes, {.unpacked_bytes = 1 << 30, .expansion = 10000}); },
      ErrorCode::kResourceExhausted, "(ReadLimits::unpacked_bytes raises it)");
}

TEST(HostileArchiveTest, MoreMembersThanTheLimit) {
  const std::string bytes = zip_that_promises(100, 1, 1);
  expect_error_containing([&] { parse_zip(bytes, {.parts = 99}); }, ErrorCode::kResourceExhausted,
                          "[keras_files] m.keras: got 100 members; expected at most 99 "
                          "(ReadLimits::parts raises it)");
}

TEST(HostileArchiveTest, AListThatPromisesMoreMembersThanItHas) {
  std::string bytes = zip_that_promises(3, 10, 10);
  bytes.replace(bytes.size() - 14, 4, le(0xFFFE, 2) + le(0xFFFE, 2));
  expect_refused_cheaply([&] { parse_zip(bytes); }, ErrorCode::kDataLoss,
                         "that are no whole zip archive");
}

}  // namespace
}  // namespace strata::keras_files
