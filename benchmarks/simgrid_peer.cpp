// Collectives on a two-level tree in SimGrid, for the benchmarks of the simulator.
//
//     simgrid_peer ring|pairwise|direct RANKS BYTES PER_LEAF BANDWIDTH LATENCY TRUNK
//
// Every rank is an actor; its rounds are those that steptime's schedule of that name has, with the
// same bytes, and it waits for its messages of a round before the next. Hosts hang on leaves by a
// link of BANDWIDTH bytes/s and LATENCY seconds each way, leaves on a spine by one of TRUNK bytes/s
// and no latency. Prints the simulated seconds and the wall-clock seconds of the simulation, without
// those of making the platform and the actors.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>

namespace sg = simgrid::s4u;

static int ranks;
static std::int64_t bytes;
static std::vector<sg::Mailbox*> mailboxes;  // of (receiver, distance to the sender)
static int payload;

static sg::Mailbox* mailbox(int to, int distance) {
  return mailboxes[static_cast<std::size_t>(to) * ranks + distance];
}

static std::int64_t chunk(int index) {
  return (index + 1) * bytes / ranks - index * bytes / ranks;
}

static void post(std::vector<sg::CommPtr>& round, int rank, int distance, int index, int** slot) {
  int to = (rank + distance) % ranks;
  round.push_back(mailbox(rank, distance)->get_async<int>(slot));
  round.push_back(mailbox(to, distance)->put_async(&payload, chunk(index)));
}

static void ring(int rank) {
  for (int step = 0; step < 2 * (ranks - 1); step++) {
    int* slot;
    std::vector<sg::CommPtr> round;
    post(round, rank, 1, (rank - step + 2 * ranks) % ranks, &slot);
    sg::Comm::wait_all(round);
  }
}

static void pairwise(int rank) {
  for (int distance = 1; distance < ranks; distance++) {
    int* slot;
    std::vector<sg::CommPtr> round;
    post(round, rank, distance, (rank + distance) % ranks, &slot);
    sg::Comm::wait_all(round);
  }
}

static void direct(int rank) {
  std::vector<int*> slots(ranks);
  std::vector<sg::CommPtr> round;
  for (int distance = 1; distance < ranks; distance++)
    post(round, rank, distance, (rank + distance) % ranks, &slots[distance]);
  sg::Comm::wait_all(round);
}

int main(int argc, char** argv) {
  sg::Engine engine(&argc, argv);
  if (argc != 8) return 2;
  std::string kind = argv[1];
  ranks = std::stoi(argv[2]);
  bytes = std::stoll(argv[3]);
  int per_leaf = std::stoi(argv[4]);
  double bandwidth = std::stod(argv[5]), latency = std::stod(argv[6]), trunk = std::stod(argv[7]);
  void (*work)(int) = kind == "ring" ? ring : kind == "pairwise" ? pairwise : direct;

  auto* spine = sg::create_star_zone("spine");
  std::vector<sg::Host*> hosts;
  for (int leaf = 0; leaf * per_leaf < ranks; leaf++) {
    std::string name = "leaf" + std::to_string(leaf);
    auto* zone = sg::create_star_zone(name);
    zone->set_parent(spine);
    auto* gateway = zone->create_router(name + "-gateway");
    for (int rank = leaf * per_leaf; rank < std::min(ranks, (leaf + 1) * per_leaf); rank++) {
      auto* host = zone->create_host("host" + std::to_string(rank), 1e9);
      auto* link = zone->create_split_duplex_link("nic" + std::to_string(rank), bandwidth);
      link->set_latency(latency)->seal();
      zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr,
                      {{link, sg::LinkInRoute::Direction::UP}}, true);
      hosts.push_back(host);
    }
    zone->seal();
    auto* link = spine->create_split_duplex_link("trunk" + std::to_string(leaf), trunk);
    link->set_latency(0)->seal();
    spine->add_route(zone->get_netpoint(), nullptr, gateway, nullptr,
                     {{link, sg::LinkInRoute::Direction::UP}}, true);
  }
  spine->seal();
  mailboxes.resize(static_cast<std::size_t>(ranks) * ranks);
  for (int to = 0; to < ranks; to++)
    for (int distance = 1; distance < (kind == "ring" ? 2 : ranks); distance++)
      mailboxes[static_cast<std::size_t>(to) * ranks + distance] =
          sg::Mailbox::by_name(std::to_string(to) + "-" + std::to_string(distance));
  for (int rank = 0; rank < ranks; rank++)
    sg::Actor::create("rank" + std::to_string(rank), hosts[rank], work, rank);

  auto start = std::chrono::steady_clock::now();
  engine.run();
  std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  std::printf("%.12g %.6f\n", sg::Engine::get_clock(), wall.count());
}
