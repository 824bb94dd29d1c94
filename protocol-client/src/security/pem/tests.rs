use super::*;

/// A key made by OpenSSL for this test, in each form.
const PLAIN: &str = "-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg9DiraMjyXM3UH7qC
ZjlV+llrQTBE+Tvk+6XyqHjtFMGhRANCAAQSVl+CK2ejhIwXkdkChVglijP4tORR
9VW1Ec3jsbFyKxsIG9fsbh8GtKWBb0LDCeleFtd/2oFSTNNrmRuksB/R
-----END PRIVATE KEY-----";
const SEC1: &str = "-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIPQ4q2jI8lzN1B+6gmY5VfpZa0EwRPk75Pul8qh47RTBoAoGCCqGSM49
AwEHoUQDQgAEElZfgitno4SMF5HZAoVYJYoz+LTkUfVVtRHN47GxcisbCBvX7G4f
BrSlgW9CwwnpXhbXf9qBUkzTa5kbpLAf0Q==
-----END EC PRIVATE KEY-----";
const AES_256: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgjW6lY/OudxAICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEELuj/fFruNH0g6FsK0d+gEQEgZAm
xyvPwUHwCEs0rzJmDAaWVO9ZJArQnIbdrPZhXHhAXiWTsUrEugBYw1IHE57CiMzQ
IplM6aRAx8sEeQH2Ub5L612fImpLbMp+st6l0OROXf+3YuQV0tjqBEUG6yCU58Ok
UQhW1o0wqSQncWxghsB70JI7dmh71pCFfp45eQ7Zf4Tgphe9cDm66oI2RkZ3FPM=
-----END ENCRYPTED PRIVATE KEY-----";
const TRIPLE_DES: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHjME4GCSqGSIb3DQEFDTBBMCkGCSqGSIb3DQEFDDAcBAhh9dSaY2OHawICCAAw
DAYIKoZIhvcNAgkFADAUBggqhkiG9w0DBwQIr87EC+S38a8EgZBcbMHT1IyjsDEK
l2nd84du8uCcVfWJ1TQF5PzV9BSFnLHJTcfVtW3u3Ohg8UsIJIeF7Aa3NfCINela
MnyQsVubOdbWY/BNuq8JnwOgqUfcnSbR4OJ8+SHRBpPfa3rewiZ9gyR3aXZhInpn
efOqWeyVe+yd8HalMnPLHrHsWKX0T5x42Ksg8+DGhAnvebHRSjU=
-----END ENCRYPTED PRIVATE KEY-----";
const SCRYPT: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHkME8GCSqGSIb3DQEFDTBCMCEGCSsGAQQB2kcECzAUBAhPNK0X5Zl8HwICQAAC
AQgCAQEwHQYJYIZIAWUDBAEqBBAv6LMtKeLB7z9Z63N4IAGCBIGQK/cpTKVm7o2C
no+CYFVI0mBu/QHLRZliNl8pUfbPTfTQbnPlILIq0JxvJ2mbEEiBZgfiLahfdkOG
sLLe1im4jsQy4V78QAjoskyJE+ixszuixauwbMN8gKCoakfXVwzqnqOC0LR/GbmA
7b+JxTW4eCAZWAQs3Jh0WWh0uspMCq7Jxg+/yJHNstYJ4tU4/LuZ
-----END ENCRYPTED PRIVATE KEY-----";
const OLD: &str = "-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-256-CBC,A0AC91CA58B06CDD65BAF73D2B480308

fudEEa/i03q8WhQrnR4gx0lqiDpgp9E+BZp0Vvm+HRvo+5KsdHQh/qSeJRtngbBU
hU128fgSqxAorsNq4k023b3o7OxhKv+icAp++h46JHWAK4CHmhdJOSCz8Hdm05o9
b7Hd1NNttPpGrABW6VMKwpeio4JILhZc3xmd77gGOmQ=
-----END EC PRIVATE KEY-----";

fn der(key: Option<PrivateKey>) -> Vec<u8> {
    match key {
        Some(PrivateKey::Pkcs8(der)) => der,
        _ => panic!("no key of PKCS#8"),
    }
}

#[test]
fn encrypted_keys_of_openssl_are_decrypted() {
    let plain = der(private_key(PLAIN, None).unwrap());
    let password = Secret::from("key-secret");
    for encrypted in [AES_256, TRIPLE_DES, SCRYPT] {
        assert_eq!(der(private_key(encrypted, Some(&password)).unwrap()), plain);
        let wrong = private_key(encrypted, Some(&"hunter2".into())).err().unwrap();
        assert!(wrong.contains("ssl.key.password may be wrong") && !wrong.contains("hunter2"));
        let missing = private_key(encrypted, None).err().unwrap();
        assert!(missing.contains("set ssl.key.password"), "{missing}");
    }
    let old = private_key(OLD, Some(&password)).err().unwrap();
    assert!(old.contains("openssl pkcs8 -topk8"), "{old}");
}

#[test]
fn keys_are_told_apart_by_their_form() {
    assert!(matches!(private_key(SEC1, None), Ok(Some(PrivateKey::Sec1(_)))));
    assert!(matches!(private_key("no key", None), Ok(None)));
}

/// As properties on one line come, blanks or nothing where line ends were.
#[test]
fn pem_on_one_line_is_read() {
    let plain = der(private_key(PLAIN, None).unwrap());
    let line = PLAIN.replace('\n', " ");
    assert_eq!(der(private_key(&line, None).unwrap()), plain);
    let encrypted = AES_256.replace('\n', " ");
    assert_eq!(der(private_key(&encrypted, Some(&"key-secret".into())).unwrap()), plain);
}

#[test]
fn damaged_pem_is_named() {
    assert!(certificates("-----BEGIN CERTIFICATE-----\n!!!\n-----END CERTIFICATE-----").is_err());
    assert!(certificates("-----BEGIN CERTIFICATE-----\nAAAA").is_err());
    let cut = AES_256.replace("END", "AND");
    assert!(private_key(&cut, Some(&"key-secret".into())).is_err());
}
