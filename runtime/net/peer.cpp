#include "runtime/net/peer.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "runtime/net/asker.h"
#include "runtime/net/shortage.h"

namespace chainio::net {
namespace {

// While a veth's peer has a native program, segments are the veth's own work and nobody can switch this on. Unlike the
// other features of that kind it does not depend on any that a person may have switched off.
constexpr std::string_view kOffBesideProgram = "tx-gso-list";

// A struct of the kernel's with an array behind it.
template <typename Head>
class WithTail {
  public:
    explicit WithTail(std::size_t tail) : words_((sizeof(Head) + tail + 7) / 8) {}
    Head& head() { return *reinterpret_cast<Head*>(words_.data()); }

  private:
    std::vector<std::uint64_t> words_;
};

// How many features the kernel knows; 0: it does not say.
std::uint32_t count_of_features(Asker& asker) {
    WithTail<ethtool_sset_info> asked(sizeof(std::uint32_t));
    asked.head().cmd = ETHTOOL_GSSET_INFO;
    asked.head().sset_mask = 1ull << ETH_SS_FEATURES;
    return asker.ethtool(&asked.head()) && asked.head().sset_mask != 0 ? asked.head().data[0] : 0;
}

std::optional<std::uint32_t> number_of_feature(Asker& asker, std::string_view name, std::uint32_t count) {
    WithTail<ethtool_gstrings> names(std::size_t{count} * ETH_GSTRING_LEN);
    names.head().cmd = ETHTOOL_GSTRINGS;
    names.head().string_set = ETH_SS_FEATURES;
    names.head().len = count;
    if (!asker.ethtool(&names.head())) return std::nullopt;
    for (std::uint32_t i = 0; i < std::min(count, names.head().len); i++) {
        const auto* each = reinterpret_cast<const char*>(names.head().data) + std::size_t{i} * ETH_GSTRING_LEN;
        if (name == std::string_view(each, strnlen(each, ETH_GSTRING_LEN))) return i;
    }
    return std::nullopt;
}

// Whether the peer has a native program, of whose end the kernel will tell: then the feature is on again, as it is
// wanted, which is a change of the veth.
std::expected<bool, int> peer_has_program(const Interface& interface) {
    Asker asker(interface.device);
    if (is_shortage(asker.error())) return std::unexpected(asker.error());
    const std::uint32_t count = count_of_features(asker), blocks = (count + 31) / 32;
    const auto number = number_of_feature(asker, kOffBesideProgram, count);
    if (!number) return false;
    WithTail<ethtool_gfeatures> features(blocks * sizeof(ethtool_get_features_block));
    features.head().cmd = ETHTOOL_GFEATURES;
    features.head().size = blocks;
    if (!asker.ethtool(&features.head())) return false;
    const ethtool_get_features_block& block = features.head().features[*number / 32];
    const std::uint32_t bit = 1u << *number % 32;
    return (block.available & bit) == 0 && (block.requested & bit) != 0;
}

}  // namespace

std::expected<cio_xdp_answering, int> taken_by_peer(const Interface& interface, bool links_are_heard) {
    if (links_are_heard) {
        const auto has = peer_has_program(interface);
        if (!has) return std::unexpected(has.error());
        if (*has) return CIO_XDP_BY_TX;
    }
    // A veth's peer takes packets only where it has a program itself or GRO is on: the kernel says so by this feature.
    const auto features = driver_features(interface);
    if (!features && is_shortage(features.error())) return std::unexpected(features.error());
    return (features.value_or(0) & kTransmitFeature) != 0 ? CIO_XDP_BY_REDIRECT : CIO_XDP_SILENT;
}

}  // namespace chainio::net
