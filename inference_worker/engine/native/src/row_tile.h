// Tiles of decode attention: the addresses of some tokens' keys and values, and their prefetching.
#pragma once

#include "attention.h"
#include "linear.h"

namespace headrace {

// The addresses of some tokens' keys and values of the first head; the other heads' follow.
template <class Vector>
struct Tile {
    using Stored = typename Vector::Stored;
    const Stored *keys[kTokens], *values[kTokens];
    int64_t count = 0;

    void locate(const PagedSide<Vector>& key_side, const PagedSide<Vector>& value_side, const int64_t* table,
                int64_t head, int64_t start, int64_t end) {
        count = std::min(kTokens, end - start);
        key_side.locate(table, head, start, count, keys);
        value_side.locate(table, head, start, count, values);
        for (int64_t i = count; i % kWidth; ++i) keys[i] = keys[count - 1], values[i] = values[count - 1];
    }
};

// Prefetches a tile, a few tokens at a time, as many as memory delivers meanwhile.
template <class Vector>
class Prefetch {
  public:
    // Prefetches in about `turns` calls of `turn`; `length`: number of `Stored` per token.
    Prefetch(const Tile<Vector>& tile, int64_t length, int64_t turns)
        : tile_(tile), bytes_(length * sizeof(typename Vector::Stored)), tokens_((tile.count + turns - 1) / turns) {}

    void turn() {
        for (const int64_t end = std::min(tile_.count, next_ + tokens_); next_ < end; ++next_) {
            prefetch(tile_.keys[next_], bytes_);
            prefetch(tile_.values[next_], bytes_);
        }
    }

  private:
    const Tile<Vector>& tile_;
    const int64_t bytes_, tokens_;
    int64_t next_ = 0;
};

}  // namespace headrace
