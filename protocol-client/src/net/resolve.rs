//! Names to addresses, without the C library: the shipped binary is static and runs where there is none.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;

/// Every address of `host`: IP literals and `localhost` need no file, other names the hosts file, then the name servers
/// of resolv.conf. Both files are read anew each time, for they change while a job runs.
pub(crate) async fn resolve(host: &str) -> Result<Vec<IpAddr>, String> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![address]);
    }
    let name = host.trim_end_matches('.').to_ascii_lowercase();
    if name == "localhost" || name.ends_with(".localhost") {
        // RFC 6761: always the loopback.
        return Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]);
    }
    let found = resolver()?.lookup_ip(host).await.map_err(|error| error.to_string())?;
    let mut addresses = Vec::new();
    for address in found.iter() {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    if addresses.is_empty() { Err("the name has no address".to_owned()) } else { Ok(addresses) }
}

fn resolver() -> Result<TokioResolver, String> {
    let mut builder = TokioResolver::builder_tokio().unwrap_or_else(|error| {
        tracing::debug!(%error, "no name servers: resolv.conf can not be read");
        let none = ResolverConfig::from_parts(None, Vec::new(), Vec::new());
        TokioResolver::builder_with_config(none, TokioRuntimeProvider::default())
    });
    builder.options_mut().ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    builder.build().map_err(|error| error.to_string())
}
