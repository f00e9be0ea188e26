#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "wire/transfer.h"

namespace strata::wire {

/// A hash table of intrusive FIFO queues, one queue a tag. `Node` has `Tag tag` and
/// `Node* next_in_tag_queue`. It owns nothing.
template <typename Node>
class TagQueue {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  void push(Node* node) {
    if (size_ >= 2 * chains_.size()) grow();
    ++size_;
    append(node);
  }

  /// The first node of that tag, or null.
  Node* find(const Tag& tag) const {
    if (size_ == 0) return nullptr;
    Node* node = chains_[index(tag)];
    while (node != nullptr && !same(node->tag, tag)) node = node->next_in_tag_queue;
    return node;
  }

  /// Removes and returns the first node of that tag, or returns null.
  Node* take(const Tag& tag) {
    Node* node = find(tag);
    if (node != nullptr) remove(node);
    return node;
  }

  /// @return false if the queue does not contain `node`.
  bool remove(Node* node) {
    if (size_ == 0) return false;
    Node** link = &chains_[index(node->tag)];
    while (*link != nullptr && *link != node) link = &(*link)->next_in_tag_queue;
    if (*link == nullptr) return false;
    *link = std::exchange(node->next_in_tag_queue, nullptr);
    --size_;
    return true;
  }

  bool contains(const Node* wanted) const {
    if (size_ == 0) return false;
    const Node* node = chains_[index(wanted->tag)];
    while (node != nullptr && node != wanted) node = node->next_in_tag_queue;
    return node != nullptr;
  }

  std::vector<Node*> all() const {
    std::vector<Node*> nodes;
    for (Node* node : chains_)
      for (; node != nullptr; node = node->next_in_tag_queue) nodes.push_back(node);
    return nodes;
  }

 private:
  static bool same(const Tag& a, const Tag& b) { return a.id == b.id && a.channel == b.channel; }

  size_t index(const Tag& tag) const {
    const uint64_t key = uint64_t{tag.channel} << 32 | tag.id;
    return (key * 0x9E3779B97F4A7C15u >> 32) & (chains_.size() - 1);
  }

  void append(Node* node) {
    Node** link = &chains_[index(node->tag)];
    while (*link != nullptr) link = &(*link)->next_in_tag_queue;
    node->next_in_tag_queue = nullptr;
    *link = node;
  }

  void grow() {
    const std::vector<Node*> nodes = all();
    chains_.assign(chains_.empty() ? 64 : 2 * chains_.size(), nullptr);
    for (Node* node : nodes) append(node);
  }

  std::vector<Node*> chains_;  // their number is a power of two
  size_t size_ = 0;
};

}  // namespace strata::wire
