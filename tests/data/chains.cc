#include "data/chains.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/scalar_tensor.h>

#include <stdexcept>
#include <vector>

#include "data/elements.h"

namespace strata::data {
namespace {

Dataset slices(int64_t n) {
  return Dataset::from_tensor_slices({at::arange(2 * n).view({n, 2}), at::arange(n)});
}

Dataset generator(int64_t n) {
  return Dataset::from_generator([n, i = int64_t{0}]() mutable -> std::optional<Example> {
    if (i == n) return std::nullopt;
    const int64_t at = i++;
    return Example{longs({2 * at, 2 * at + 1}), longs({at}).squeeze(0)};
  });
}

/// A number that depends on all of an element.
int64_t sum_of(const Example& element) {
  int64_t sum = 0;
  for (const at::Tensor& field : element.fields) sum += field.sum().item<int64_t>();
  return sum;
}

Example plus(const Example& element, int64_t value) {
  return element.map([&](const at::Tensor& t) { return t.add(value); });
}

class Drawer {
 public:
  Drawer(uint32_t seed, const Build& build) : random_(seed), build_(build) {}

  int64_t pick(int64_t lowest, int64_t highest) {
    return lowest + static_cast<int64_t>(random_() % static_cast<uint32_t>(highest - lowest + 1));
  }
  const Build& build() const { return build_; }

 private:
  std::mt19937 random_;
  const Build& build_;
};

struct Transform {
  const char* name;
  /// @return false: it does not fit there.
  bool (*apply)(Chain& chain, Drawer& draw);
};

bool set(Chain& chain, Dataset dataset) {
  chain.dataset = std::move(dataset);
  return true;
}

// Some elements of each: nested transforms, some parallel, some empty.
DatasetFunction sub_dataset(int64_t parallel, int64_t kind) {
  return [parallel, kind](const Example& element) {
    const int64_t sum = sum_of(element);
    const Dataset numbers = Dataset::range(sum % 4).map(
        [element](const Example& i) { return plus(element, 100 * i.x().item<int64_t>()); },
        {.num_parallel_calls = kind % 2 == 0 ? 0 : parallel});
    return kind < 2 ? numbers : numbers.shuffle(3, {.seed = 4}).prefetch(1);
  };
}

const Transform kTransforms[] = {
    {"take", [](Chain& c, Drawer& d) { return set(c, c.dataset.take(d.pick(0, 25))); }},
    {"skip", [](Chain& c, Drawer& d) { return set(c, c.dataset.skip(d.pick(0, 7))); }},
    {"shard",
     [](Chain& c, Drawer& d) {
       const int64_t n = d.pick(1, 4);
       return set(c, c.dataset.shard(n, d.pick(0, n - 1)));
     }},
    {"repeat", [](Chain& c, Drawer& d) { return set(c, c.dataset.repeat(d.pick(0, 4))); }},
    {"repeat_endlessly",
     [](Chain& c, Drawer&) {
       c.endless = true;
       return set(c, c.dataset.repeat());
     }},
    {"shuffle",
     [](Chain& c, Drawer& d) {
       return set(c,
                  c.dataset.shuffle(d.pick(1, 40), {.seed = static_cast<uint64_t>(d.pick(0, 9)),
                                                    .reshuffle_each_iteration = d.pick(0, 2) > 0}));
     }},
    {"cache", [](Chain& c, Drawer&) { return set(c, c.dataset.cache()); }},
    {"file_cache",
     [](Chain& c, Drawer& d) {
       static int count = 0;
       const std::string path = d.build().folder + "/cache" + std::to_string(++count);
       return set(c, c.dataset.cache(path));
     }},
    {"prefetch", [](Chain& c, Drawer& d) { return set(c, c.dataset.prefetch(d.pick(1, 5))); }},
    {"prefetch_auto", [](Chain& c, Drawer&) { return set(c, c.dataset.prefetch(kAutotune)); }},
    {"map",
     [](Chain& c, Drawer&) {
       return set(c, c.dataset.map([](const Example& e) { return plus(e, 1); }));
     }},
    {"map_keyed",
     [](Chain& c, Drawer& d) {
       return set(c, c.dataset.map(
                         [](const Example& e, const ElementKey& key) {
                           RandomNumbers random(key);
                           return plus(e, static_cast<int64_t>(random.below(1000)));
                         },
                         {.num_parallel_calls = d.pick(0, 1) == 0 ? 0 : d.build().parallel_calls,
                          .seed = 5}));
     }},
    {"map_parallel",
     [](Chain& c, Drawer& d) {
       return set(c, c.dataset.map([](const Example& e) { return plus(e, 3); },
                                   {.num_parallel_calls = d.build().parallel_calls}));
     }},
    {"map_failing",  // where the sum says so
     [](Chain& c, Drawer& d) {
       c.dataset = c.dataset.map(
           [](const Example& e) {
             if (sum_of(e) % 5 == 0) throw std::domain_error("five");
             return e;
           },
           {.num_parallel_calls = d.pick(0, 1) == 0 ? 0 : d.build().parallel_calls});
       if (d.pick(0, 1) == 0) c.dataset = c.dataset.ignore_errors();
       return true;
     }},
    {"filter",
     [](Chain& c, Drawer&) {
       return set(c, c.dataset.filter([](const Example& e) { return sum_of(e) % 3 != 1; }));
     }},
    {"take_while",
     [](Chain& c, Drawer&) {
       return set(c, c.dataset.take_while([](const Example& e) { return sum_of(e) % 11 != 7; }));
     }},
    {"flat_map",
     [](Chain& c, Drawer& d) {
       return set(c, c.dataset.flat_map(sub_dataset(d.build().parallel_calls, d.pick(0, 3))));
     }},
    {"interleave",
     [](Chain& c, Drawer& d) {
       const int64_t kind = d.pick(0, 3), cycle = d.pick(1, 4), block = d.pick(1, 3);
       return set(c, c.dataset.interleave(
                         sub_dataset(d.build().parallel_calls, kind),
                         {.cycle_length = cycle,
                          .block_length = block,
                          .num_parallel_calls = d.pick(0, 1) == 0 ? 0 : d.build().parallel_calls}));
     }},
    {"concatenate",
     [](Chain& c, Drawer& d) {
       return set(c, c.dataset.concatenate(c.dataset.take(d.pick(0, 5))));
     }},
    {"batch",
     [](Chain& c, Drawer& d) {
       const int64_t size = d.pick(1, 5);
       c.batched = true;
       return set(c, c.dataset.batch(size, {.drop_remainder = d.pick(0, 1) == 0}));
     }},
    {"padded_batch",
     [](Chain& c, Drawer& d) {
       const int64_t size = d.pick(1, 5);
       c.batched = true;
       return set(c, c.dataset.padded_batch(
                         size, {.padding_values = {-1}, .drop_remainder = d.pick(0, 1) == 0}));
     }},
    {"window",
     [](Chain& c, Drawer& d) {
       WindowOptions options{.size = d.pick(1, 5), .shift = d.pick(0, 6), .stride = d.pick(1, 3)};
       options.drop_remainder = d.pick(0, 1) == 0;
       c.batched = true;
       return set(c, c.dataset.window(options));
     }},
    {"window_map",
     [](Chain& c, Drawer& d) {
       const WindowOptions options{.size = d.pick(1, 5), .shift = d.pick(0, 6)};
       return set(c, c.dataset.window(options, [](const Dataset& window) {
         return window.map([](const Example& e) { return plus(e, 7); });
       }));
     }},
    {"group_by_window",
     [](Chain& c, Drawer& d) {
       const bool whole = d.pick(0, 1) == 0;
       const int64_t size = d.pick(1, 4);
       c.batched |= whole;
       return set(c, c.dataset.group_by_window([](const Example& e) { return sum_of(e) % 3; },
                                               [=](int64_t key, const Dataset& window) {
                                                 const Dataset marked =
                                                     window.map([key](const Example& e) {
                                                       return plus(e, 1000 * key);
                                                     });
                                                 return whole ? marked.padded_batch(3) : marked;
                                               },
                                               size));
     }},
    {"bucket",
     [](Chain& c, Drawer& d) {
       const int64_t a = d.pick(1, 3), b = d.pick(1, 3);
       c.batched = true;
       return set(c, c.dataset.bucket_by_sequence_length(
                         [](const Example& e) { return sum_of(e); },
                         {.bucket_boundaries = {20}, .bucket_batch_sizes = {a, b}}));
     }},
    {"enumerate",
     [](Chain& c, Drawer& d) {
       c.batched = false;
       return set(c, c.dataset.enumerate(d.pick(0, 9)));
     }},
    {"zip",
     [](Chain& c, Drawer& d) {
       c.batched = false;
       return set(c, Dataset::zip({c.dataset, Dataset::range(d.pick(0, 40)).shuffle(5)}));
     }},
    {"sample",
     [](Chain& c, Drawer& d) {
       return set(c, Dataset::sample_from_datasets(
                         {c.dataset, c.dataset.skip(2)},
                         {.weights = {1, 2}, .stop_on_empty_dataset = d.pick(0, 1) == 0}));
     }},
    {"choose",
     [](Chain& c, Drawer& d) {
       return set(c, Dataset::choose_from_datasets({c.dataset, c.dataset.skip(1)},
                                                   Dataset::range(2).repeat(9).shuffle(7),
                                                   d.pick(0, 1) == 0));
     }},
    {"with_options",
     [](Chain& c, Drawer& d) {
       return set(c, c.dataset.with_options({.num_threads = 1 + d.build().parallel_calls,
                                             .memory_budget = d.pick(0, 1) == 0 ? 0 : 1000}));
     }},
    {"unbatch",
     [](Chain& c, Drawer&) {
       if (!c.batched) return false;
       c.batched = false;
       return set(c, c.dataset.unbatch());
     }},
    {"rebatch",
     [](Chain& c, Drawer& d) {
       return c.batched && set(c, c.dataset.rebatch({d.pick(1, 4), d.pick(0, 3)}));
     }},
};

Chain draw(Drawer& drawer, int source, int64_t length) {
  const int64_t n = drawer.pick(0, 30);
  Chain chain{source == 0 ? "slices" : "generator", source == 0 ? slices(n) : generator(n)};
  chain.name += "(" + std::to_string(n) + ")";
  while (length > 0 && !chain.endless) {  // behind an endless one a filter may never return
    const auto& transform =
        kTransforms[drawer.pick(0, static_cast<int64_t>(std::size(kTransforms)) - 1)];
    if (!transform.apply(chain, drawer)) continue;
    chain.name += std::string(".") + transform.name;
    --length;
  }
  return chain;
}

}  // namespace

Chain draw_chain(uint32_t seed, int source, const Build& build) {
  Drawer drawer(seed, build);
  const int64_t length = drawer.pick(1, 3);
  return draw(drawer, source, length);
}

Chain draw_free_chain(uint32_t seed, const Build& build) {
  Drawer drawer(seed, build);
  const int64_t length = drawer.pick(0, 2);
  Chain chain = draw(drawer, static_cast<int>(seed % 2), length);
  if (chain.endless) chain.dataset = chain.dataset.take(40);
  if (drawer.pick(0, 1) == 0) {
    chain.name += ".map_free";
    chain.dataset =
        chain.dataset.map([](const Example& e) { return plus(e, 1); },
                          {.num_parallel_calls = build.parallel_calls, .deterministic = false});
  } else {
    chain.name += ".interleave_free";
    chain.dataset = chain.dataset.interleave(sub_dataset(2, drawer.pick(0, 3)),
                                             {.cycle_length = drawer.pick(1, 4),
                                              .block_length = drawer.pick(1, 3),
                                              .num_parallel_calls = build.parallel_calls,
                                              .deterministic = false});
  }
  chain.deterministic = false;
  return chain;
}

size_t num_transforms() { return std::size(kTransforms); }

}  // namespace strata::data
