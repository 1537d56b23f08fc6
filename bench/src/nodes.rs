//! Many nodes over one database: whether they slow each other down. The database, the nodes and the
//! load share one machine, so this cannot show how far they scale, only the cost or benefit of a
//! second and a third node there.

use crate::Setup;
use crate::client::{Request, memory};
use crate::core_usage::{self, CoreUsage};
use crate::corpus::Contents;
use crate::database::{PostgresServer, start_node};
use crate::host::{KEY, ServerProcess, command, timed};
use crate::load::Load;
use crate::reads::ReadOperation;
use crate::table::{LatencySample, Table, ms, number, ratio};
use serde_json::json;
use std::net::SocketAddr;

const NODES: [usize; 3] = [1, 2, 3];
const CLIENTS: usize = 64;
const TENANTS: usize = 16;

#[derive(Clone, Copy)]
enum NodeLoad {
    /// All clients write to one memory.
    OneTenant,
    /// Each client writes to one of several tenants; a tenant's clients are on different nodes.
    Tenants,
    /// Reads of the memory with the corpus.
    Gets,
}

const NODE_LOADS: [(&str, NodeLoad); 3] = [
    ("put, all in one tenant", NodeLoad::OneTenant),
    ("put, 16 tenants", NodeLoad::Tenants),
    ("get, one tenant", NodeLoad::Gets),
];

/// Runs each load on 1 to 3 nodes. `filled` is the URL of a database with the corpus.
pub fn run(
    setup: &Setup,
    server: &PostgresServer,
    contents: &Contents,
    filled: &str,
) -> anyhow::Result<()> {
    let heads = [
        "Load of 64 clients",
        "nodes",
        "requests/s",
        "p50",
        "p99",
        "requests per commit",
        "requests/s : 1 node",
    ];
    let mut table = Table::new(&[&heads[..], &core_usage::HEADS[..]].concat());
    for (name, work) in NODE_LOADS {
        let mut alone = 0.0;
        for nodes in NODES {
            let (sample, grouped, cores) = match work {
                NodeLoad::Gets => measure(setup, server, contents, work, nodes, filled)?,
                _ => {
                    let database = server.new_database()?;
                    measure(
                        setup,
                        server,
                        contents,
                        work,
                        nodes,
                        &database.migrate(setup)?,
                    )?
                }
            };
            if nodes == 1 {
                alone = sample.rate();
            }
            let latency = [50.0, 99.0].map(|percent| ms(sample.percentile(percent)));
            let cells = [name.to_owned(), nodes.to_string(), number(sample.rate())]
                .into_iter()
                .chain(latency);
            let grouped = grouped.map_or_else(String::new, number);
            table.row(
                cells
                    .chain([grouped, ratio(sample.rate(), alone)])
                    .chain(cores),
            );
            eprintln!("{name}, nodes: {nodes}: {}", sample.count());
        }
    }
    table.print("## PostgreSQL, nodes: 1 to 3 over the same database");
    let machine = std::thread::available_parallelism().map_or(0, usize::from);
    println!(
        "\nThis machine has {machine} cores, and the database, the nodes and the load share them: once they are busy, a further node can \
         bring nothing. What counts is that it takes nothing away. A tenant's clients are spread over all nodes, the worst case for \
         nodes that take turns at the tenant's clock."
    );
    Ok(())
}

type Figure = (LatencySample, Option<f64>, [String; 3]);

fn measure(
    setup: &Setup,
    server: &PostgresServer,
    contents: &Contents,
    work: NodeLoad,
    nodes: usize,
    url: &str,
) -> anyhow::Result<Figure> {
    let keys = if matches!(work, NodeLoad::Tenants) {
        keys(setup, url)?
    } else {
        vec![KEY.to_owned()]
    };
    let hosts: Vec<ServerProcess> = (0..nodes)
        .map(|_| start_node(setup, url))
        .collect::<Result<_, _>>()?;
    let all: Vec<&ServerProcess> = hosts.iter().collect();
    let addresses: Vec<SocketAddr> = hosts.iter().map(ServerProcess::address).collect();
    let watch = CoreUsage::start(server, &all);
    let sample = Load {
        clients: CLIENTS,
        run: setup.run_time,
    }
    .run_spread(&addresses, |client, n| match work {
        NodeLoad::Gets => ReadOperation::Get.request(contents, setup.entries, client << 32 | n),
        _ => {
            let body = json!({"content": contents.at(n * CLIENTS + client)}).to_string();
            Request::post(
                &keys[client % keys.len()],
                &memory("puts", "entries"),
                &body,
            )
        }
    })?;
    let cores = watch.cells(server, &all);
    let grouped = if matches!(work, NodeLoad::Gets) {
        None
    } else {
        Some(requests_per_commit(&hosts)?)
    };
    hosts.into_iter().try_for_each(ServerProcess::stop)?;
    Ok((sample, grouped, cores))
}

fn requests_per_commit(hosts: &[ServerProcess]) -> anyhow::Result<f64> {
    let mut commits = 0.0;
    let mut requests = 0.0;
    for host in hosts {
        commits += host.metric("remem_commit_group_batches_count")?;
        requests += host.metric("remem_commit_group_batches_sum")?;
    }
    Ok(requests / f64::max(commits, 1.0))
}

/// Creates a key for each of several new tenants.
fn keys(setup: &Setup, url: &str) -> anyhow::Result<Vec<String>> {
    let one = |tenant: usize| {
        let mut command = command(setup, &setup.new_folder("key-")?);
        command.args([
            "--database",
            url,
            "--tenant",
            &format!("t{tenant}"),
            "key",
            "create",
        ]);
        Ok(timed(command)?.1.trim().to_owned())
    };
    (0..TENANTS).map(one).collect()
}
