//! Writes packets as a pcapng file (draft-ietf-opsawg-pcapng) with two interfaces, timestamps in nanoseconds,
//! the names of hosts, and the secrets with which Wireshark decrypts TLS.

use std::net::IpAddr;

use fastopen_netns::packet::Captured;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const NAME_RESOLUTION: u32 = 4;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;
const DECRYPTION_SECRETS: u32 = 10;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const LINKTYPE_ETHERNET: u16 = 1;
const NAME_RECORD_IPV4: u16 = 1;
const NAME_RECORD_IPV6: u16 = 2;
/// Secrets type of a TLS key log in the NSS format (`SSLKEYLOGFILE`).
const TLS_KEY_LOG: u32 = 0x544c_534b;
/// Unit of the timestamps (`if_tsresol`) as a negative power of ten: 10⁻⁹ s.
const NANOSECONDS: u8 = 9;

/// Value of the option `epb_flags` for packets that the interface received.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

const OPT_COMMENT: u16 = 1;
const SHB_USER_APPLICATION: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;
const ISB_IF_RECEIVED: u16 = 4;
const ISB_IF_DROPPED: u16 = 5;

/// The packets of one interface.
pub struct Interface {
    /// The name that Wireshark shows for the interface (option `if_name`).
    pub name: &'static str,
    /// The description that Wireshark shows (option `if_description`).
    pub description: &'static str,
    pub packets: Vec<Captured>,
    /// The number of packets that were dropped because the tap's buffer was full.
    pub dropped: u32,
}

/// Returns the bytes of a pcapng file: the comment, the names of addresses, TLS secrets (`key_log`), and the
/// packets of all interfaces in the order of their timestamps. The capture ended at `end_unix_ns`.
pub fn file(
    comment: &str,
    names: &[(IpAddr, &str)],
    key_log: &str,
    interfaces: &[Interface],
    end_unix_ns: u64,
) -> Vec<u8> {
    let mut out = Vec::new();
    let application = concat!("fastopen-world ", env!("CARGO_PKG_VERSION"));
    block(&mut out, SECTION_HEADER, |body| {
        body.extend(BYTE_ORDER_MAGIC.to_le_bytes());
        // Version 1.0; a section of unknown length.
        body.extend([1, 0, 0, 0]);
        body.extend((-1_i64).to_le_bytes());
        option(body, OPT_COMMENT, comment.as_bytes());
        option(body, SHB_USER_APPLICATION, application.as_bytes());
        end_of_options(body);
    });
    for interface in interfaces {
        block(&mut out, INTERFACE_DESCRIPTION, |body| {
            body.extend(LINKTYPE_ETHERNET.to_le_bytes());
            // Two reserved bytes; no limit to a packet's length.
            body.extend([0; 2]);
            body.extend([0; 4]);
            option(body, IF_NAME, interface.name.as_bytes());
            option(body, IF_DESCRIPTION, interface.description.as_bytes());
            option(body, IF_TSRESOL, &[NANOSECONDS]);
            end_of_options(body);
        });
    }
    block(&mut out, NAME_RESOLUTION, |body| {
        for (address, name) in names {
            let (kind, octets) = match address {
                IpAddr::V4(address) => (NAME_RECORD_IPV4, address.octets().to_vec()),
                IpAddr::V6(address) => (NAME_RECORD_IPV6, address.octets().to_vec()),
            };
            let value = [&octets, name.as_bytes(), &[0]].concat();
            option(body, kind, &value);
        }
        end_of_options(body);
    });
    // Secrets precede the packets, because programs read the file in one pass.
    if !key_log.is_empty() {
        block(&mut out, DECRYPTION_SECRETS, |body| {
            body.extend(TLS_KEY_LOG.to_le_bytes());
            body.extend((key_log.len() as u32).to_le_bytes());
            body.extend(key_log.as_bytes());
            pad(body);
        });
    }
    let mut packets: Vec<_> = (0_u32..)
        .zip(interfaces)
        .flat_map(|(number, interface)| interface.packets.iter().map(move |packet| (number, packet)))
        .collect();
    packets.sort_by_key(|(_, packet)| packet.unix_ns);
    for (interface, packet) in packets {
        block(&mut out, ENHANCED_PACKET, |body| {
            let length = (packet.bytes.len() as u32).to_le_bytes();
            body.extend(interface.to_le_bytes());
            stamp(body, packet.unix_ns);
            body.extend(length);
            body.extend(length);
            body.extend(&packet.bytes);
            pad(body);
            let direction = if packet.outgoing { OUTBOUND } else { INBOUND };
            option(body, EPB_FLAGS, &direction.to_le_bytes());
            end_of_options(body);
        });
    }
    for (number, interface) in (0_u32..).zip(interfaces) {
        block(&mut out, INTERFACE_STATISTICS, |body| {
            let dropped = u64::from(interface.dropped);
            body.extend(number.to_le_bytes());
            stamp(body, end_unix_ns);
            option(body, ISB_IF_RECEIVED, &(interface.packets.len() as u64 + dropped).to_le_bytes());
            option(body, ISB_IF_DROPPED, &dropped.to_le_bytes());
            end_of_options(body);
        });
    }
    out
}

fn block(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend(kind.to_le_bytes());
    out.extend([0; 4]);
    fill(out);
    let length = ((out.len() - start + 4) as u32).to_le_bytes();
    out[start + 4..start + 8].copy_from_slice(&length);
    out.extend(length);
}

fn stamp(out: &mut Vec<u8>, unix_ns: u64) {
    out.extend(((unix_ns >> 32) as u32).to_le_bytes());
    out.extend((unix_ns as u32).to_le_bytes());
}

/// Appends a pcapng option. Truncates its value to 65,535 bytes, because the length has 16 bits.
fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend(code.to_le_bytes());
    out.extend((value.len() as u16).to_le_bytes());
    out.extend(value);
    pad(out);
}

fn end_of_options(out: &mut Vec<u8>) {
    out.extend([0; 4]);
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

#[cfg(test)]
#[path = "../../tests/unit/pcapng.rs"]
mod tests;
