#include "trainer/transport/untrusted_connections.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

namespace trainyard::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Two ends of a connection.
struct Ends {
  Ends() : Ends(Pair()) {}
  explicit Ends(const std::array<int, 2>& ends) : near(ends[0]), far(ends[1]) {}
  static std::array<int, 2> Pair() {
    std::array<int, 2> ends{-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    return ends;
  }
  // As gRPC does it.
  void End() {
    shutdown(near.get(), SHUT_RDWR);
    close(near.Release());
  }
  bool IsDown() const {
    char byte = 0;
    return recv(far.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }
  OwnedFd near;
  OwnedFd far;
};

TEST(UntrustedConnectionsTest, OfTooManyTheOldestIsShutDown) {
  UntrustedConnections connections(2, 2);
  Ends first;
  Ends second;
  Ends third;
  Ends fourth;
  EXPECT_EQ(*connections.Add(first.near.get(), "first"), std::nullopt);
  EXPECT_EQ(*connections.Add(second.near.get(), "second"), std::nullopt);
  EXPECT_EQ(*connections.Add(third.near.get(), "third"), "first");
  EXPECT_TRUE(first.IsDown());
  EXPECT_FALSE(second.IsDown());
  connections.Trust("second");
  EXPECT_EQ(*connections.Add(fourth.near.get(), "fourth"), std::nullopt);
  EXPECT_FALSE(third.IsDown());
  connections.Opened("third");
  EXPECT_EQ(*connections.Add(second.near.get(), "fifth"), std::nullopt);  // its handler tells of the third
  EXPECT_TRUE(third.IsDown());
}

TEST(UntrustedConnectionsTest, OfTooManyWithAStreamTheOldestIsShutDown) {
  UntrustedConnections connections(9, 2);
  std::array<Ends, 5> ends;
  for (size_t i = 0; i < ends.size(); ++i)
    ASSERT_TRUE(connections.Add(ends[i].near.get(), std::string(1, static_cast<char>('a' + i))).ok());
  connections.Opened("b");
  connections.Opened("c");
  EXPECT_FALSE(ends[1].IsDown());
  connections.Trust("b");  // counts no longer
  connections.Opened("d");
  EXPECT_FALSE(ends[2].IsDown());
  connections.Opened("e");
  EXPECT_TRUE(ends[2].IsDown());
  for (const size_t stays : {0, 1, 3, 4}) EXPECT_FALSE(ends[stays].IsDown()) << stays;
}

TEST(UntrustedConnectionsTest, AnEndIsToldOnceAndOnlyWithoutAStreamAndWithoutTrust) {
  UntrustedConnections connections(9, 9);
  Ends silent;
  Ends streaming;
  Ends trusted;
  ASSERT_TRUE(connections.Add(silent.near.get(), "silent").ok());
  ASSERT_TRUE(connections.Add(streaming.near.get(), "streaming").ok());
  ASSERT_TRUE(connections.Add(trusted.near.get(), "trusted").ok());
  connections.Opened("streaming");
  connections.Trust("trusted");
  EXPECT_THAT(connections.TakeEnded(), IsEmpty());
  silent.End();
  streaming.End();
  trusted.End();
  EXPECT_TRUE(silent.IsDown());  // no file of ours keeps it open
  EXPECT_THAT(connections.TakeEnded(), ElementsAre("silent"));
  EXPECT_THAT(connections.TakeEnded(), IsEmpty());
}

TEST(UntrustedConnectionsTest, ANameThatComesAgainIsTheNewConnection) {
  UntrustedConnections connections(1, 1);
  Ends old;
  Ends fresh;
  ASSERT_TRUE(connections.Add(old.near.get(), "peer").ok());
  EXPECT_EQ(*connections.Add(fresh.near.get(), "peer"), std::nullopt);
  EXPECT_FALSE(old.IsDown());
  old.End();
  EXPECT_THAT(connections.TakeEnded(), IsEmpty());
}

}  // namespace
}  // namespace trainyard::engine
