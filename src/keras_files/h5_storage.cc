// Where a file keeps links, texts and data: symbol tables, heaps, chunks, filters.

#include <zlib.h>

#include <algorithm>

#include "core/checked_size.h"
#include "keras_files/h5_file.h"

namespace strata::keras_files::h5 {
namespace {

constexpr int kMaxTreeDepth = 32;
constexpr uint64_t kDeflate = 1, kShuffle = 2, kFletcher32 = 3;

/// One node of a tree, after its signature and type have been checked.
struct Node {
  uint64_t level, entries;
};

Node parse_node(Cursor& cursor, uint64_t type, int depth) {
  cursor.signature("TREE");
  if (cursor.number(1) != type) damaged("a tree of another kind");
  const Node node{.level = cursor.number(1), .entries = cursor.number(2)};
  cursor.take(16);  // neighbours
  // A child is one level lower, so no tree is its own child.
  if (depth >= 0 && node.level != static_cast<uint64_t>(depth)) damaged("a tree's levels");
  if (node.level > kMaxTreeDepth) damaged("a tree's levels");
  return node;
}

/// `text` begins at `offset` and ends with a zero.
std::string text_at(Bytes heap, uint64_t offset, Budget& budget) {
  const Bytes from = slice(heap, offset, heap.size() - std::min<uint64_t>(offset, heap.size()),
                           "a name outside of its heap");
  const auto end = std::find(from.begin(), from.end(), std::byte{0});
  if (end == from.end()) damaged("a name without an end");
  budget.copy(static_cast<uint64_t>(end - from.begin()));
  return {reinterpret_cast<const char*>(from.data()), static_cast<size_t>(end - from.begin())};
}

uint32_t fletcher32(Bytes bytes) {
  uint32_t low = 0, high = 0;
  for (size_t i = 0; i < bytes.size(); i += 2) {
    const uint32_t first = std::to_integer<uint32_t>(bytes[i]);
    const uint32_t second = i + 1 < bytes.size() ? std::to_integer<uint32_t>(bytes[i + 1]) : 0;
    low = (low + (first << 8 | second)) % 65535;
    high = (high + low) % 65535;
  }
  return high << 16 | low;
}

/// In arithmetic modulo 65535 its two halves have two zeros.
bool same_fletcher32(uint32_t a, uint32_t b) {
  return (a >> 16) % 65535 == (b >> 16) % 65535 && (a & 0xFFFF) % 65535 == (b & 0xFFFF) % 65535;
}

std::vector<std::byte> inflated(Bytes bytes, uint64_t size) {
  std::vector<std::byte> out(size);
  uLongf length = size;
  const int status = uncompress(reinterpret_cast<Bytef*>(out.data()), &length,
                                reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  if (status != Z_OK) damaged("compressed data");
  out.resize(length);
  return out;
}

std::vector<std::byte> unshuffled(Bytes bytes, uint64_t item) {
  std::vector<std::byte> out(bytes.size());
  const uint64_t count = item == 0 ? 0 : bytes.size() / item;
  for (uint64_t byte = 0; byte < item; ++byte) {
    for (uint64_t i = 0; i < count; ++i) out[i * item + byte] = bytes[byte * count + i];
  }
  std::copy(bytes.begin() + static_cast<long>(count * item), bytes.end(),
            out.begin() + static_cast<long>(count * item));
  return out;
}

/// A product that fits 64 bits, or damage.
uint64_t product(std::vector<uint64_t> factors, uint64_t first) {
  factors.push_back(first);
  const auto whole = strata::detail::checked_product(std::span<const uint64_t>(factors));
  if (!whole) damaged("a shape without bounds");
  return *whole;
}

/// Chunks that it takes to cover `shape`.
uint64_t chunks_in(const std::vector<uint64_t>& shape, const std::vector<uint64_t>& chunk) {
  std::vector<uint64_t> counts;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (chunk[d] == 0) damaged("a chunk's shape");
    counts.push_back(shape[d] / chunk[d] + (shape[d] % chunk[d] != 0));
  }
  return product(std::move(counts), 1);
}

}  // namespace

void File::read_symbols(uint64_t tree, uint64_t heap, std::vector<Link>& links) const {
  Cursor cursor(at(heap, 32, "a group's heap"), "a group's heap");
  cursor.signature("HEAP");
  if (cursor.number(1) != 0) damaged("a heap of an unknown version");
  cursor.take(3);
  const uint64_t size = cursor.number(8);
  cursor.take(8);
  read_symbol_tree(tree, -1, at(cursor.number(8), size, "a group's names"), links);
}

void File::read_symbol_tree(uint64_t address, int depth, Bytes heap,
                            std::vector<Link>& links) const {
  constexpr const char* kWhat = "a group's members";
  Cursor cursor(from(address, kWhat), kWhat);
  const Node node = parse_node(cursor, 0, depth);
  for (uint64_t i = 0; i < node.entries; ++i) {
    budget_.visit();
    cursor.take(8);  // the first name
    const uint64_t child = cursor.number(8);
    if (node.level > 0) {
      read_symbol_tree(child, static_cast<int>(node.level) - 1, heap, links);
      continue;
    }
    Cursor symbols(from(child, kWhat), kWhat);
    symbols.signature("SNOD");
    if (symbols.number(1) != 1) damaged("members of an unknown version");
    symbols.take(1);
    const uint64_t count = symbols.number(2);
    for (uint64_t j = 0; j < count; ++j) {
      budget_.visit();
      Link link{.name = text_at(heap, symbols.number(8), budget_), .address = symbols.number(8)};
      if (symbols.number(4) == 2) link.kind = Link::Kind::kSoft;
      symbols.take(20);
      links.push_back(std::move(link));
    }
  }
}

const std::map<uint16_t, Bytes>& File::heap(uint64_t address) {
  const auto known = heaps_.find(address);
  if (known != heaps_.end()) return known->second;
  constexpr uint64_t kHeader = 16;
  Cursor cursor(at(address, kHeader, "the heap of texts"), "the heap of texts");
  cursor.signature("GCOL");
  if (cursor.number(1) != 1) damaged("a heap of an unknown version");
  cursor.take(3);
  const uint64_t size = cursor.number(8);
  if (size < kHeader) damaged("the heap of texts");
  Cursor objects(at(address, size, "the heap of texts").subspan(kHeader), "the heap of texts");
  std::map<uint16_t, Bytes> texts;
  while (objects.left() >= kHeader) {
    budget_.visit();
    const auto index = static_cast<uint16_t>(objects.number(2));
    objects.take(6);
    const uint64_t length = objects.number(8);
    if (index == 0) break;  // the rest is free
    if (length > size) damaged("a text's length");
    if (!texts.emplace(index, objects.take(padded(length)).first(length)).second) {
      damaged("two texts of one number");
    }
  }
  return heaps_.emplace(address, std::move(texts)).first->second;
}

std::vector<std::string> File::texts(const Attribute& attribute) {
  constexpr uint64_t kReference = 16;  // length 4, address 8, index 4
  if (attribute.count > attribute.data.size() / kReference) damaged("an attribute ends early");
  Cursor references(attribute.data, "an attribute");
  std::vector<std::string> strings;
  budget_.copy(attribute.count * sizeof(std::string));
  for (uint64_t i = 0; i < attribute.count; ++i) {
    const uint64_t length = references.number(4), address = references.number(8);
    const uint64_t index = references.number(4);
    std::string string;
    if (length > 0) {
      const auto& known = heap(address);
      const auto text = known.find(static_cast<uint16_t>(index));
      if (index > 0xFFFF || text == known.end()) damaged("a text is not in its heap");
      budget_.copy(length);
      string = Cursor(text->second, "a text's length").text(length);
    }
    string.erase(std::min(string.find('\0'), string.size()));
    strings.push_back(std::move(string));
  }
  return strings;
}

void File::read_chunk_tree(uint64_t address, int depth, size_t rank,
                           std::vector<Chunk>& chunks) const {
  constexpr const char* kWhat = "the chunks";
  Cursor cursor(from(address, kWhat), kWhat);
  const Node node = parse_node(cursor, 1, depth);
  for (uint64_t i = 0; i < node.entries; ++i) {
    budget_.visit();
    Chunk chunk{
        .address = kNowhere, .size = cursor.number(4), .mask = cursor.number(4), .begin = {}};
    for (size_t d = 0; d < rank; ++d) chunk.begin.push_back(cursor.number(8));
    cursor.take(8);  // the element's byte
    chunk.address = cursor.number(8);
    if (node.level > 0) {
      read_chunk_tree(chunk.address, static_cast<int>(node.level) - 1, rank, chunks);
    } else {
      chunks.push_back(std::move(chunk));
    }
  }
}

std::vector<File::Chunk> File::chunks(const ObjectHeader& dataset) const {
  std::vector<Chunk> result;
  if (dataset.layout.address == kNowhere) return result;
  if (dataset.layout.chunk.size() != dataset.shape.size()) damaged("a chunk's shape");
  read_chunk_tree(dataset.layout.address, -1, dataset.shape.size(), result);
  // A dataset that was shrunk keeps no chunks outside of its shape.
  if (result.size() > chunks_in(dataset.shape, dataset.layout.chunk)) {
    damaged("more chunks than the shape has room for");
  }
  return result;
}

uint64_t File::stored_size(const ObjectHeader& dataset) const {
  if (dataset.layout.kind != Layout::Kind::kChunks) return dataset.layout.size;
  uint64_t size = 0;
  for (const Chunk& chunk : chunks(dataset)) size += chunk.size;  // 32 bits each
  return size;
}

namespace {

/// Copies the part of a chunk that lies inside the dataset, a run of the last dimension at a time.
void place(Bytes chunk, const std::vector<uint64_t>& chunk_shape,
           const std::vector<uint64_t>& begin, const std::vector<uint64_t>& shape, uint64_t item,
           std::span<std::byte> out) {
  const size_t rank = shape.size();
  for (size_t d = 0; d < rank; ++d) {
    if (begin[d] >= shape[d]) return;
  }
  const uint64_t run = std::min(chunk_shape[rank - 1], shape[rank - 1] - begin[rank - 1]) * item;
  std::vector<uint64_t> index(rank, 0);
  while (true) {
    uint64_t from = 0, to = 0;
    for (size_t d = 0; d < rank; ++d) {
      from = from * chunk_shape[d] + index[d];
      to = to * shape[d] + begin[d] + index[d];
    }
    std::memcpy(out.subspan(to * item, run).data(), chunk.subspan(from * item, run).data(), run);
    size_t d = rank - 1;
    while (d-- > 0) {
      if (++index[d] < chunk_shape[d] && begin[d] + index[d] < shape[d]) break;
      index[d] = 0;
    }
    if (d == static_cast<size_t>(-1)) return;
  }
}

}  // namespace

void File::read(const ObjectHeader& dataset, std::span<std::byte> out) const {
  const Layout& layout = dataset.layout;
  if (layout.kind == Layout::Kind::kInHeader || layout.kind == Layout::Kind::kWhole) {
    if (layout.kind == Layout::Kind::kWhole && layout.address == kNowhere) return;
    const Bytes data = layout.kind == Layout::Kind::kInHeader
                           ? layout.data
                           : at(layout.address, layout.size, "data outside of the file");
    if (data.size() < out.size()) damaged("data that ends early");
    budget_.read(out.size());
    std::memcpy(out.data(), data.data(), out.size());
    return;
  }
  const uint64_t item = dataset.type.size;
  const uint64_t chunk_bytes = product(layout.chunk, item);
  if (chunk_bytes == 0) damaged("a chunk's shape");
  for (const Chunk& chunk : chunks(dataset)) {
    Bytes bytes = at(chunk.address, chunk.size, "a chunk outside of the file");
    budget_.unpack(chunk_bytes);
    std::vector<std::byte> buffer;
    for (size_t i = dataset.filters.size(); i-- > 0;) {
      if ((chunk.mask >> i & 1) != 0) continue;
      const uint64_t filter = dataset.filters[i].id;
      std::vector<std::byte> undone;
      if (filter == kDeflate) {
        // A chunk's room is bounded by the file.
        if (chunk_bytes / kMaxExpansion > bytes.size()) damaged("a chunk's shape");
        undone = inflated(bytes, chunk_bytes + 4);  // a checksum may be inside
      } else if (filter == kShuffle) {
        undone = unshuffled(bytes, item);
      } else if (filter == kFletcher32) {
        if (bytes.size() < 4) damaged("a chunk that ends early");
        const Bytes data = bytes.first(bytes.size() - 4);
        const auto sum = static_cast<uint32_t>(Cursor(bytes.last(4), "a checksum").number(4));
        if (!same_fletcher32(sum, fletcher32(data))) damaged("a chunk's checksum");
        undone.assign(data.begin(), data.end());
      } else {
        damaged("an unknown filter");
      }
      buffer = std::move(undone);
      bytes = buffer;
    }
    if (bytes.size() < chunk_bytes) damaged("a chunk that ends early");
    place(bytes, layout.chunk, chunk.begin, dataset.shape, item, out);
  }
}

}  // namespace strata::keras_files::h5
