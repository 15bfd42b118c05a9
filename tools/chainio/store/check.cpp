#include "tools/chainio/store/check.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "tools/chainio/store/build.h"
#include "tools/chainio/store/files.h"
#include "tools/chainio/store/format.h"

namespace chainio::store {
namespace {

class Check {
  public:
    Check(int fd, std::string path) : fd_(fd), path_(std::move(path)), item_(kMaxItem) {}
    ~Check() { close(fd_); }
    Check(const Check&) = delete;
    Check& operator=(const Check&) = delete;

    std::expected<Checked, std::string> run() {
        if (!header()) return out_;
        out_.buckets = header_.buckets;
        out_.bytes = header_.length;
        for (std::uint64_t number = 0; number < header_.buckets; number++) chain_of(number);
        if (out_.items != header_.items)
            wrong(0, fmt::format("the header says {} items, and the buckets have {}", header_.items, out_.items));
        if (out_.overflow != header_.overflow)
            wrong(0, fmt::format("the header says {} further buckets, and {} are led to", header_.overflow,
                                 out_.overflow));
        return out_;
    }

  private:
    // What is not named is counted, so that a few bad bytes can be told from a lost disk.
    void wrong(std::uint64_t at, const std::string& what) {
        if (out_.problems.size() == kMostProblems)
            out_.more_problems++;
        else
            out_.problems.push_back(fmt::format("{}: byte {}: {}", path_, at, what));
    }

    bool header() {
        struct stat info{};
        if (fstat(fd_, &info) != 0) return wrong(0, system_text("cannot be looked at")), false;
        const auto read = read_header(fd_, header_);
        if (!read) return wrong(0, read.error()), false;
        if (!*read || header_.magic != Header{}.magic)
            return wrong(0, "this is no store; `chainio store build` makes one"), false;
        out_.of_ours = true;
        if (header_.version != kWhole && header_.version != kInPieces)
            return wrong(8, fmt::format("the store is of version {}, and this program knows {} and {}", header_.version,
                                        kWhole, kInPieces)),
                   false;
        if (header_.crc != crc_of(header_)) return wrong(0, "the header's sum is wrong"), false;
        const std::uint64_t size = (header_.buckets + header_.overflow) * sizeof(Bucket);
        // With more, they would have the size of few.
        const bool counted = header_.buckets != 0 && header_.buckets <= kMostBuckets &&
                             header_.overflow <= kMostFurther * header_.buckets && header_.index <= header_.length;
        if (!counted || header_.index % kPage != 0 || header_.length != padded(header_.index + size, kPage))
            return wrong(0, "the header's figures contradict each other"), false;
        if (header_.length != static_cast<std::uint64_t>(info.st_size))
            return wrong(0, fmt::format("the store has {} bytes, and the file {}", header_.length, info.st_size)),
                   false;
        return true;
    }

    // A bucket and those that it leads to.
    void chain_of(std::uint64_t first) {
        bool any = false;
        std::uint64_t least = 0, number = first;
        for (std::size_t i = 0; i <= kMostFurther; i++) {
            Bucket bucket;
            const std::uint64_t at = header_.index + number * sizeof bucket;
            if (auto read = read_at(fd_, {reinterpret_cast<std::uint8_t*>(&bucket), sizeof bucket}, at); !read)
                return wrong(at, read.error());
            if (bucket.crc != crc_of(bucket)) return wrong(at, fmt::format("the sum of bucket {} is wrong", number));
            if (bucket.used > kSlots || (bucket.following != 0 && bucket.used != kSlots))
                return wrong(at, fmt::format("bucket {} says that it has {} items", number, bucket.used));
            for (std::size_t k = 0; k < bucket.used; k++) {
                const Slot& slot = bucket.slots[k];
                if ((any && slot.hash <= least) || bucket_of(slot.hash, header_.buckets) != first)
                    return wrong(at, fmt::format("slot {} of bucket {} is out of order", k, number));
                any = true;
                least = slot.hash;
                item(slot);
            }
            if (bucket.following == 0) return;
            out_.overflow++;
            number = bucket.following;
            if (number < header_.buckets || number >= header_.buckets + header_.overflow)
                return wrong(at, fmt::format("what follows is no bucket: {}", number));
        }
        wrong(header_.index + first * sizeof(Bucket), "too many buckets follow one another");
    }

    void item(const Slot& slot) {
        out_.items++;
        const std::uint64_t at = at_of(slot.place), size = bytes_at(slot.place);
        if (at < kPage || size < sizeof(ItemHead) || size > kMaxItem || at + size > header_.index)
            return wrong(at, "a slot leads to where no item is");
        if (auto read = read_at(fd_, std::span(item_).first(size), at); !read) return wrong(at, read.error());
        ItemHead head;
        std::memcpy(&head, item_.data(), sizeof head);
        const std::string_view rest(reinterpret_cast<const char*>(item_.data()) + sizeof head, size - sizeof head);
        if (std::size_t{head.key_size} + head.value_size != rest.size())
            return wrong(at, "the item's sizes are not those of its slot");
        const std::string_view key = rest.substr(0, head.key_size);
        if (head.crc != crc_of(head, key, rest.substr(head.key_size))) return wrong(at, "the item's sum is wrong");
        // Such a slot leads to the item of another one, whose value would be read again for every slot that does.
        if (hash_of(key, header_.seed) != slot.hash) return wrong(at, "the item's key has another hash than its slot");
        if (head.pieces != 0) pieces(at, size, head, rest.substr(head.key_size));
    }

    // Of the value of the item at `item`, which are where its table says.
    void pieces(std::uint64_t item, std::uint64_t size, const ItemHead& head, std::string_view table) {
        if (header_.version < kInPieces)
            return wrong(item, "the item has a value in pieces, and stores of version 1 have none");
        if (table.size() != table_size(head.pieces))
            return wrong(item, fmt::format("the item's table has {} bytes, and for {} pieces it has {}", table.size(),
                                           head.pieces, table_size(head.pieces)));
        Pieces there;
        std::memcpy(&there, table.data(), sizeof there);
        if (there.length <= kMaxWhole || there.length > kMaxValue || pieces_of(there.length) != head.pieces)
            return wrong(item, fmt::format("the item's value has {} bytes in {} pieces", there.length, head.pieces));
        const std::uint64_t begin = padded(item + size, kPage);
        if (there.at != begin)
            return wrong(item, fmt::format("the item's table leads to byte {}, and its value's pieces begin at byte {}",
                                           there.at, begin));
        if (begin > header_.index || there.length > header_.index - begin)
            return wrong(item, fmt::format("the item's value ends at byte {}, and the items at byte {}",
                                           begin + there.length, header_.index));
        std::vector<std::uint32_t> sums(head.pieces);
        std::memcpy(sums.data(), table.data() + sizeof there, head.pieces * sizeof sums[0]);
        for (std::uint64_t i = 0; i < head.pieces; i++) piece(item, i, there, sums[i]);
    }

    void piece(std::uint64_t item, std::uint64_t number, const Pieces& of, std::uint32_t crc) {
        const std::uint64_t at = of.at + number * kPiece;
        const auto bytes = std::span(item_).first(std::min<std::uint64_t>(kPiece, of.at + of.length - at));
        if (auto read = read_at(fd_, bytes, at); !read) return wrong(at, read.error());
        if (ir::crc32c(bytes) != crc)
            wrong(at, fmt::format("the sum of piece {} of the item at byte {} is wrong", number, item));
    }

    int fd_;
    std::string path_;
    Header header_;
    Checked out_;
    std::vector<std::uint8_t> item_;  // or a piece of a value
};

}  // namespace

std::expected<Checked, std::string> check(const std::string& path) {
    const auto fd = open_regular(path);
    if (!fd && fd.error().system) return std::unexpected(path + ": " + fd.error().text);
    if (fd) return Check(*fd, path).run();
    Checked out;
    out.problems.push_back(path + ": " + fd.error().text);
    return out;
}

}  // namespace chainio::store
