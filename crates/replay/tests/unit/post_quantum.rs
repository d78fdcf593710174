use super::*;

#[test]
fn both_ends_compute_one_secret_from_shares_of_the_drafts_sizes() {
    let client = X25519MlKem768.start().unwrap();
    assert_eq!(client.pub_key().len(), 1216);
    let server = X25519MlKem768.start_and_complete(client.pub_key()).unwrap();
    assert_eq!(server.pub_key.len(), 1120);
    let secret = client.complete(&server.pub_key).unwrap();
    assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
    assert_eq!(secret.secret_bytes().len(), 64);
}

#[test]
fn both_ends_compute_one_secret_of_ml_kem_1024() {
    let client = ML_KEM_1024.start().unwrap();
    assert_eq!(client.pub_key().len(), 1568);
    let server = ML_KEM_1024.start_and_complete(client.pub_key()).unwrap();
    assert_eq!(server.pub_key.len(), 1568);
    let secret = client.complete(&server.pub_key).unwrap();
    assert_eq!(secret.secret_bytes(), server.secret.secret_bytes());
    assert_eq!(secret.secret_bytes().len(), 32);
}

#[test]
fn a_share_of_another_length_is_refused() {
    assert!(X25519MlKem768.start_and_complete(&[0; 32]).is_err());
    assert!(X25519MlKem768.start().unwrap().complete(&[0; 1119]).is_err());
    assert!(ML_KEM_1024.start_and_complete(&[0; 1567]).is_err());
    assert!(ML_KEM_1024.start().unwrap().complete(&[0; 1569]).is_err());
}
