//! `millstream doctor`: every step to a cluster, one by one, and what to change.

mod advice;
mod cluster;
mod report;

use std::collections::{BTreeMap, BTreeSet};

use millstream_protocol_client::{BrokerProbe, ClientConfig, probe_broker};

use self::report::{Check, Report, Status};
use super::CommandError;
use crate::args::doctor::DoctorArguments;
use crate::cluster::runtime;
use crate::exit_code;
use crate::signals::Signals;

pub(crate) fn run(arguments: &DoctorArguments) -> Result<(), CommandError> {
    let config = arguments.cluster.config()?;
    let mut report = Report::new(arguments.cluster.output);
    let runtime = runtime()?;
    let examined = runtime.block_on(async {
        let mut signals = Signals::listen()?;
        tokio::select! {
            examined = examine(&config, &mut report) => examined,
            signal = signals.next() => Err(signal.into()),
        }
    });
    runtime.shutdown_background();
    examined?;
    match report.worst() {
        None => report.close("nothing stands in the way of a job").map_err(CommandError::from),
        Some(exit_code) => {
            let failed = match report.failed() {
                1 => "a check failed".to_owned(),
                more => format!("{more} checks failed"),
            };
            let text = format!("{failed}; what to change stands below it");
            Err(CommandError::says(exit_code, text))
        }
    }
}

async fn examine(config: &ClientConfig, report: &mut Report) -> Result<(), CommandError> {
    let mut probes = Vec::new();
    for address in &config.bootstrap_servers {
        probes.push(probe_broker(config, address).await?);
    }
    // One address that works is enough to begin with.
    let reached = probes.iter().any(|probe| probe.failure().is_none());
    for probe in &probes {
        let status = if reached { Status::Warning } else { Status::Failed };
        let advice = advice::for_bootstrap(config, probe).await?;
        show(report, &probe.address, probe, status, advice)?;
    }
    let mut advertised: BTreeMap<&str, i32> = BTreeMap::new();
    for probe in &probes {
        advertised.extend(probe.advertised.iter().map(|(id, address)| (address.as_str(), *id)));
    }
    let tried: BTreeSet<&str> =
        probes.iter().filter(|p| p.failure().is_none()).map(|p| p.address.as_str()).collect();
    let mut further = Vec::new();
    for (address, id) in advertised {
        if tried.contains(address) {
            continue;
        }
        let probe = probe_broker(config, address).await?;
        let advice = advice::for_advertised(config, &probe, id).await?;
        let subject = format!("{address}, advertised by broker {id}");
        show(report, &subject, &probe, Status::Failed, advice)?;
        further.push(probe);
    }
    probes.extend(further);
    if !reached || report.worst().is_some() {
        return Ok(());
    }
    cluster::examine(config, &probes, report).await
}

/// Writes a probe's steps; what failed counts as `when_failed`.
fn show(
    report: &mut Report,
    subject: &str,
    probe: &BrokerProbe,
    when_failed: Status,
    advice: Option<String>,
) -> Result<(), CommandError> {
    report.begin(subject)?;
    let mut advice = advice;
    for step in &probe.steps {
        let took = Some(step.took);
        let check = step.step.name();
        match &step.result {
            Ok(found) => report.add(Check { took, ..Check::ok(check, found.clone()) })?,
            Err(reason) => {
                let advice = advice.take();
                // As the client itself would end.
                let exit_code =
                    if reason.is_security() { exit_code::CONFIG } else { exit_code::UNAVAILABLE };
                let found = reason.to_string();
                report.add(Check { check, status: when_failed, found, advice, took, exit_code })?;
            }
        }
    }
    Ok(())
}
